"""Convolutions: plain, depthwise, separable, transposed, and inside an LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import attribute, need
from anylayer.layer.arguments import channels_first, extent, flat_pads, restored, same_pads
from anylayer.layers.keras._base import WindowLayer, by_rank, numbers, positive
from anylayer.layers.keras.activations import activation
from anylayer.layers.keras.rnn import StateLayer
from anylayer.network import Array

_CAUSAL = ("valid", "same", "causal")
"""The paddings of layers that convolve a sequence."""


class KernelLayer(WindowLayer):
    """A layer with a kernel, a bias and an activation function."""

    kernel_size: Any = attribute("any", doc="size of the kernel per axis")
    dilation_rate: Any = attribute("any", 1, doc="dilation per axis")
    groups: int = attribute("int64", 1, doc="number of groups of channels that are convolved separately")
    use_bias: bool = attribute("bool", True, doc="whether a bias is added")
    activation: Any = attribute("any", None, doc="activation function of the output")

    def setup(self) -> None:
        super().setup()
        self.kernel = positive(self.kernel_size, self.rank, "kernel_size")
        self.steps = positive(1 if self.strides is None else self.strides, self.rank, "strides")
        self.dilations = positive(self.dilation_rate, self.rank, "dilation_rate")
        self.function = activation(self.activation, self.dialect)

    def forward(self, x: Array) -> Any:
        self.need_rank(x)
        y = self.convolution(channels_first(x, self.data_format))
        return self.function(restored(y, self.data_format))

    def convolution(self, x: Array) -> Array:
        """Return the convolution of `x` (N, C, ...)."""
        raise NotImplementedError

    def conv(self, x: Array, weights: Array, bias: Array | None, group: int = 1) -> Array:
        """Convolve `x` (N, C, ...) with weights (out, in, ...), by the strides and the padding of the layer."""
        how = {"strides": self.steps, "pads": self.pads(x.shape[2:]), "dilations": self.dilations}
        return ops.conv(x, weights, bias, **how, group=group)

    def pads(self, sizes: Sequence[int]) -> Sequence[int] | int:
        """Return the pads of the spatial axes: those before all axes, then those after all axes."""
        if self.padding == "valid":
            return 0
        if self.padding == "causal":
            return [(self.kernel[0] - 1) * self.dilations[0], 0]
        extents = [extent(k, d) for k, d in zip(self.kernel, self.dilations)]
        return flat_pads(same_pads(sizes, extents, self.steps))

    def bias(self, index: int, size: int) -> Array | None:
        """Return weight `index`, the bias, or None when the layer has none."""
        return self.blob(index, (size,), what="bias") if self.use_bias else None


def kernel_first(kernel: Array) -> Array:
    """Return a kernel (..., in, out) as (out, in, ...)."""
    rank = kernel.ndim
    return np.ascontiguousarray(kernel.transpose(rank - 1, rank - 2, *range(rank - 2)))


class Conv(KernelLayer):
    """A convolution."""

    filters: int = attribute("int64", doc="number of output channels")

    def convolution(self, x: Array) -> Array:
        channels = x.shape[1]
        need(
            self.groups >= 1 and channels % self.groups == 0 and self.filters % self.groups == 0,
            f"groups={self.groups} does not divide {channels} channels and {self.filters} filters",
        )
        w = self.blob(0, (*self.kernel, channels // self.groups, self.filters), what="kernel")
        return self.conv(x, kernel_first(w), self.bias(1, self.filters), self.groups)


_CONV = "Convolve over {axes}: activation(conv(x, kernel) + bias)."
_SHAPES = "(N, {sizes}, C) to (N, {new}, filters); data_format channels_first puts C at axis 1."
_CAUSAL_PADS = """
    padding "causal" pads before the sequence only."""
_WEIGHTS = """
    Weights: kernel ({kernel}, C / groups, filters), bias (filters,).
    Source: keras/src/layers/convolutional/conv{rank}d.py."""

by_rank(Conv, _CONV, _SHAPES + _CAUSAL_PADS + _WEIGHTS, (1,), paddings=_CAUSAL)
by_rank(Conv, _CONV, _SHAPES + _WEIGHTS, (2, 3))


class Depthwise(KernelLayer):
    """A depthwise convolution."""

    depth_multiplier: int = attribute("int64", 1, doc="number of output channels per input channel")
    filters: Any = attribute("any", None, doc="output channels of separable convolutions; no effect elsewhere")

    def setup(self) -> None:
        super().setup()
        need(self.groups == 1, f"groups must be 1, since each channel is a group; got {self.groups}")
        need(self.depth_multiplier >= 1, f"depth_multiplier must be at least 1, got {self.depth_multiplier}")

    def depthwise(self, x: Array, bias: Array | None, kernel: str) -> Array:
        """Return `x` (N, C, ...), each channel convolved by itself; output channel c * depth_multiplier + m."""
        channels, more = x.shape[1], self.depth_multiplier
        w = self.blob(0, (*self.kernel, channels, more), what=kernel)
        w = w.transpose(self.rank, self.rank + 1, *range(self.rank)).reshape(channels * more, 1, *self.kernel)
        return self.conv(x, np.ascontiguousarray(w), bias, channels)

    def convolution(self, x: Array) -> Array:
        return self.depthwise(x, self.bias(1, x.shape[1] * self.depth_multiplier), "kernel")


by_rank(
    Depthwise,
    "Convolve each channel by itself over {axes}.",
    """(N, {sizes}, C) to (N, {new}, C * depth_multiplier); data_format channels_first puts C at axis 1. Output
    channel c * depth_multiplier + m is channel c of the input, convolved with kernel[..., c, m].
    Weights: kernel ({kernel}, C, depth_multiplier), bias (C * depth_multiplier,).
    Source: keras/src/layers/convolutional/depthwise_conv{rank}d.py.""",
    (1, 2),
    name="DepthwiseConv{rank}D",
)


class Separable(Depthwise):
    """A depthwise convolution, followed by a pointwise one."""

    def setup(self) -> None:
        super().setup()
        need(type(self.filters) is int, f"parameter 'filters' must be an integer, got {self.filters!r}")

    def convolution(self, x: Array) -> Array:
        x = self.depthwise(x, None, "depthwise kernel")
        w = self.blob(1, (*(1,) * self.rank, x.shape[1], self.filters), what="pointwise kernel")
        return ops.conv(x, kernel_first(w), self.bias(2, self.filters))


_SEPARABLE = "Convolve each channel by itself over {axes}, then combine channels by a pointwise convolution."
_DETAILS = (
    _SHAPES
    + """
    Weights: depthwise kernel ({kernel}, C, depth_multiplier), pointwise kernel ({ones}, C * depth_multiplier,
    filters), bias (filters,).
    Source: keras/src/layers/convolutional/separable_conv{rank}d.py."""
)

by_rank(Separable, _SEPARABLE, _DETAILS, (1,), "SeparableConv{rank}D", paddings=_CAUSAL)
by_rank(Separable, _SEPARABLE, _DETAILS, (2,), "SeparableConv{rank}D")


class ConvTranspose(KernelLayer):
    """A transposed convolution."""

    filters: int = attribute("int64", doc="number of output channels")
    output_padding: Any = attribute("any", None, doc="cells added to the smallest output size that fits")

    def setup(self) -> None:
        super().setup()
        need(self.groups == 1, f"groups must be 1, got {self.groups}")
        padding = self.output_padding
        self.extra = None if padding is None else numbers(padding, self.rank, "output_padding")

    def convolution(self, x: Array) -> Array:
        w = self.blob(0, (*self.kernel, self.filters, x.shape[1]), what="kernel")
        cut = [self._cut(axis, size) for axis, size in enumerate(x.shape[2:])]
        return ops.conv_transpose(
            x,
            np.ascontiguousarray(w.transpose(self.rank + 1, self.rank, *range(self.rank))),
            self.bias(1, self.filters),
            strides=self.steps,
            pads=[begin for begin, _, _ in cut] + [end for _, end, _ in cut],
            dilations=self.dilations,
            output_padding=[more for _, _, more in cut],
        )

    def _cut(self, axis: int, size: int) -> tuple[int, int, int]:
        """Return the cells to crop before and after an axis of the full result, and those to add at its end."""
        stride, same = self.steps[axis], self.padding == "same"
        kernel = extent(self.kernel[axis], self.dilations[axis])
        full = (size - 1) * stride + kernel
        if self.extra is not None:
            length = full - 2 * (kernel // 2 if same else 0) + self.extra[axis]
        else:
            length = size * stride + (0 if same else max(kernel - stride, 0))
        need(
            length > 0,
            f"the output would have {length} cells along spatial axis {axis}, where the input has {size}",
        )
        crop = max(full - length, 0)
        return crop // 2, crop - crop // 2, max(length - full, 0)


by_rank(
    ConvTranspose,
    "Compute a transposed convolution over {axes}.",
    """(N, {sizes}, C) to (N, {new}, filters), where a size n becomes n * stride for padding "same" and n * stride
    + max(kernel - stride, 0) for "valid", or the size that output_padding gives. data_format channels_first puts C
    at axis 1.
    Weights: kernel ({kernel}, filters, C), bias (filters,).
    Source: keras/src/layers/convolutional/conv{rank}d_transpose.py.""",
    name="Conv{rank}DTranspose",
)


class ConvLSTM(StateLayer, KernelLayer):
    """An LSTM whose products are convolutions."""

    harmless = frozenset({"unit_forget_bias", "dropout", "recurrent_dropout", "unroll", "zero_output_for_mask"})
    masks = "refuses"
    called_with = frozenset({"initial_state"})

    filters: int = attribute("int64", doc="number of channels of the state and of the output")
    time_major: bool = attribute("bool", False, doc="whether the sequence is (T, N, ...); not supported")

    def setup(self) -> None:
        super().setup()
        need(not self.time_major, "time_major=true is not supported")
        need(self.groups == 1, f"groups must be 1, got {self.groups}")
        self.note_state()

    def forward(self, *inputs: Array) -> list[Array]:
        args, kwargs = self.arguments(inputs)
        x, initial = args[0], kwargs.get("initial_state", args[1:])
        need(len(x.shape) == self.rank + 3, f"takes a sequence of rank {self.rank + 3}, got {tuple(x.shape)}")
        n, t = x.shape[:2]
        items = channels_first(x.reshape(n * t, *x.shape[2:]), self.data_format)
        w = self.blob(0, (*self.kernel, items.shape[1], 4 * self.filters), what="kernel")
        parts = self.conv(items, kernel_first(w), self.bias(2, 4 * self.filters))
        parts = parts.reshape(n, t, *parts.shape[1:])
        first = np.zeros((n, self.filters, *parts.shape[3:]), np.float32)
        state = [channels_first(s, self.data_format) for s in initial] or [first, first]
        w = kernel_first(self.blob(1, (*self.kernel, self.filters, 4 * self.filters), what="recurrent kernel"))
        before, steps = [(k - 1) // 2 for k in self.kernel], []
        pads = [*before, *(k - 1 - b for k, b in zip(self.kernel, before))]
        f, g = self.function, activation(self.recurrent_activation, self.dialect)
        for i in range(t)[:: -1 if self.go_backwards else 1]:
            h, c = state
            gates = np.split(parts[:, i] + ops.conv(h, w, pads=pads), 4, axis=1)
            c = g(gates[1]) * c + g(gates[0]) * f(gates[2])
            state = [g(gates[3]) * f(c), c]
            steps.append(restored(state[0], self.data_format))
        output = np.stack(steps, axis=1) if self.return_sequences else steps[-1]
        last = [restored(s, self.data_format) for s in state] if self.return_state else []
        return [output, *last][: self.outputs]


by_rank(
    ConvLSTM,
    "Compute an LSTM whose products are convolutions over {axes}.",
    """(N, steps, {sizes}, C) to (N, {new}, filters), or (N, steps, {new}, filters) with return_sequences; with
    return_state also the last state's two arrays.
    Weights: kernel ({kernel}, C, 4 filters), recurrent kernel ({kernel}, filters, 4 filters), bias (4 filters,),
    for the gates i, f, c, o.
    Source: arXiv 1506.04214; keras/src/layers/rnn/conv_lstm{rank}d.py.""",
)
