"""Recurrent layers, their cells, and the wrappers of layers of sequences."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError
from anylayer.layer import attribute, layer, need
from anylayer.layers._table import define, operators, row
from anylayer.layers.keras._base import KerasLayer, PassesMask
from anylayer.layers.keras.activations import activation
from anylayer.network import Array, Function


class StateLayer(KerasLayer):
    """A layer that runs through a sequence with a state, which is zero before the first step of each call."""

    activation: Any = attribute("any", "tanh", doc="activation function of the new values")
    recurrent_activation: Any = attribute("any", "sigmoid", doc="activation function of the gates")
    return_sequences: bool = attribute("bool", False, doc="whether all steps are returned, or only the last")
    return_state: bool = attribute("bool", False, doc="whether the last state is returned too")
    go_backwards: bool = attribute("bool", False, doc="whether the sequence is reversed first")
    stateful: bool = attribute("bool", False, doc="whether Keras keeps the state from call to call")

    def note_state(self) -> None:
        """Add a note where Keras would keep the state between calls."""
        if self.stateful:
            self.note("stateful: each call starts with a zero state, whereas Keras keeps the state between calls")


_NATIVE = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
"""Activations that every engine's recurrent operators compute."""


class SequenceLayer(StateLayer):
    """A layer that runs through a sequence (N, T, C) with a state.

    Inputs: the sequence; the arrays of the initial state when the call gives them; a mask (N, T) when there is
    one. A masked step leaves the state unchanged.
    """

    gates: ClassVar[int] = 1
    order: ClassVar[Sequence[int]] = (0,)
    """The gates in the order of the operator."""
    states: ClassVar[int] = 1
    harmless = frozenset({"unroll", "unit_forget_bias", "dropout", "recurrent_dropout", "cell"})
    masks = "takes"
    called_with = frozenset({"initial_state", "mask"})

    units: int = attribute("int64", doc="size of the state and of the output")
    use_bias: bool = attribute("bool", True, doc="whether a bias is added")
    time_major: bool = attribute("bool", False, doc="whether the sequence is (T, N, C)")
    zero_output_for_mask: bool = attribute("bool", False, doc="whether the output of masked steps is zero")

    def forward(self, *inputs: Array) -> list[Array]:
        """Return the output, then the arrays of the last state when return_state is set."""
        args, kwargs = self.arguments(inputs)
        initial = kwargs.get("initial_state", args[1:])
        initial = initial if isinstance(initial, list) else [initial]
        outputs = self.run(args[0], initial, kwargs.get("mask"))
        return outputs[: self.outputs]

    def run(self, x: Array, initial: Sequence[Any], mask: Array | None = None) -> list[Array]:
        """Return the output and the last state of the sequence `x` (N, T, C), from the initial state `initial`."""
        need(len(x.shape) == 3, f"takes a sequence of rank 3, got {tuple(x.shape)}")
        need(
            len(initial) in (0, self.states), f"the initial state must be {self.states} arrays, got {len(initial)}"
        )
        self.note_state()
        x = x if self.time_major else x.transpose(1, 0, 2)
        x = x[::-1] if self.go_backwards else x
        first = list(initial) or [np.zeros((x.shape[1], self.units), np.float32) for _ in range(self.states)]
        if mask is not None:
            mask = mask if self.time_major else mask.transpose(1, 0)
            mask = mask[::-1] if self.go_backwards else mask
        activations = self.onnx_activations()
        if mask is None and activations is not None:
            steps, last = self.run_operator(x, first, activations)
        else:
            steps, last = self.run_stepwise(x, first, mask)
        every = steps if self.time_major else steps.transpose(1, 0, 2)
        if self.return_sequences:
            output = every
        else:
            output = steps[-1] if mask is None or self.zero_output_for_mask else last[0]
        return [output, *(last if self.return_state else ())]

    def operator_activations(self) -> list[Any]:
        """Return the activations of the operator, in its order."""
        return [self.recurrent_activation, self.activation]

    def onnx_activations(self) -> list[str] | None:
        """Return the ONNX names of the operator's activations, or None if one of them has none."""
        names = self.operator_activations()
        return [_NATIVE[n] for n in names] if all(isinstance(n, str) and n in _NATIVE for n in names) else None

    def functions(self) -> tuple[Function, Function]:
        """Return the activation function, and that of the gates."""
        return activation(self.activation, self.dialect), activation(self.recurrent_activation, self.dialect)

    def kernels(self, channels: int) -> tuple[Array, Array]:
        """Return the kernel (channels, gates * units) and the recurrent kernel (units, gates * units)."""
        wide = self.gates * self.units
        return (
            self.blob(0, (channels, wide), what="kernel"),
            self.blob(1, (self.units, wide), what="recurrent kernel"),
        )

    def bias(self) -> Array:
        """Return the bias (gates * units,), which is zero when the layer has none."""
        wide = self.gates * self.units
        return self.blob(2, (wide,), what="bias") if self.use_bias else np.zeros(wide, np.float32)

    def biases(self) -> Array:
        """Return the biases of the input and of the state: (2, gates * units)."""
        bias = self.bias()
        return np.stack([bias, np.zeros_like(bias)])

    def run_operator(self, x: Array, first: list[Any], activations: list[str]) -> tuple[Any, list[Any]]:
        """Return all steps (T, N, units) and the last state, computed by one operator."""
        order = np.arange(self.gates * self.units).reshape(self.gates, -1)[list(self.order)].reshape(-1)
        w, r = (np.ascontiguousarray(kernel.T[order])[None] for kernel in self.kernels(x.shape[2]))
        states = {name: state[None] for name, state in zip(("initial_h", "initial_c"), first)}
        how = {"hidden_size": self.units, "activations": activations}
        steps, *last = self.operator(x, w, r, self.biases()[:, order].reshape(1, -1), **states, **how)
        return steps[:, 0], [state[0] for state in last]

    def operator(self, *inputs: Array, **attributes: Any) -> tuple[Array, ...]:
        """Call the operator of anylayer.ops."""
        raise NotImplementedError

    def stepper(self, channels: int) -> Callable[..., list[Any]]:
        """Return a function from (x (N, C), *state) to the next state, whose first array is the output."""
        raise NotImplementedError

    def run_stepwise(self, x: Array, first: list[Any], mask: Array | None) -> tuple[Any, list[Any]]:
        """Return all steps (T, N, units) and the last state, computed step by step."""
        step = self.stepper(x.shape[2])
        state, outputs = list(first), []
        output: Any = np.zeros((x.shape[1], self.units), np.float32)
        for t in range(x.shape[0]):
            new = step(x[t], *state)
            if mask is None:
                state, output = new, new[0]
            else:
                is_real = mask[t][:, None]
                other = np.zeros_like(new[0]) if self.zero_output_for_mask else output
                output = np.where(is_real, new[0], other)
                state = [np.where(is_real, n, old) for n, old in zip(new, state)]
            outputs.append(output)
        return np.stack(outputs), state


@layer("LSTM")
class LSTM(SequenceLayer):
    """Compute a long short-term memory over a sequence.

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last state.

        i, f, g, o = split(x @ kernel + h @ recurrent_kernel + bias)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)

    sigmoid and tanh stand for recurrent_activation and activation. The state is h and c, each (N, units).
    Weights: kernel (C, 4 units), recurrent kernel (units, 4 units), bias (4 units,), for the gates i, f, g, o.
    Source: keras/src/layers/rnn/lstm.py.
    """

    gates = 4
    order = (0, 3, 1, 2)
    states = 2

    def operator_activations(self) -> list[Any]:
        return [self.recurrent_activation, self.activation, self.activation]

    def operator(self, *inputs: Array, **attributes: Any) -> tuple[Array, ...]:
        return ops.lstm(*inputs, **attributes)

    def stepper(self, channels: int) -> Callable[..., list[Any]]:
        w, r = self.kernels(channels)
        b, (f, g) = self.bias(), self.functions()

        def step(x: Array, h: Array, c: Array) -> list[Array]:
            i, forget, new, o = np.split(x @ w + h @ r + b, 4, axis=1)
            c = g(forget) * c + g(i) * f(new)
            return [g(o) * f(c), c]

        return step


@layer("GRU")
class GRU(SequenceLayer):
    """Compute a gated recurrent unit over a sequence.

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last state.

        z = sigmoid(x @ w_z + h @ u_z)
        r = sigmoid(x @ w_r + h @ u_r)
        new = tanh(x @ w_h + r * (h @ u_h)) with reset_after, else tanh(x @ w_h + (r * h) @ u_h)
        h = z * h + (1 - z) * new

    sigmoid and tanh stand for recurrent_activation and activation. The state is h (N, units).
    Weights: kernel (C, 3 units), recurrent kernel (units, 3 units), bias (3 units,), or with reset_after (2, 3
    units) for the input and the state, for the gates z, r, h.
    Source: keras/src/layers/rnn/gru.py.
    """

    gates = 3
    order = (0, 1, 2)
    reset_after: bool = attribute(
        "bool", True, doc="whether the reset gate is applied after the product with the recurrent kernel"
    )

    def biases(self) -> Array:
        if not (self.use_bias and self.reset_after):
            return super().biases()
        return self.blob(2, (2, 3 * self.units), what="bias")

    def operator(self, *inputs: Array, **attributes: Any) -> tuple[Array, ...]:
        return ops.gru(*inputs, **attributes, linear_before_reset=self.reset_after)

    def stepper(self, channels: int) -> Callable[..., list[Any]]:
        w, r = self.kernels(channels)
        (of_x, of_h), (f, g), n = self.biases(), self.functions(), self.units

        def step(x: Array, h: Array) -> list[Array]:
            xz, xr, xh = np.split(x @ w + of_x, 3, axis=1)
            gates = h @ r[:, : 2 * n] + of_h[: 2 * n]
            z, reset = g(xz + gates[:, :n]), g(xr + gates[:, n:])
            if self.reset_after:
                new = f(xh + reset * (h @ r[:, 2 * n :] + of_h[2 * n :]))
            else:
                new = f(xh + (reset * h) @ r[:, 2 * n :])
            return [z * h + (np.float32(1) - z) * new]

        return step


@layer("SimpleRNN")
class SimpleRNN(SequenceLayer):
    """Compute h = activation(x @ kernel + h @ recurrent_kernel + bias) over a sequence.

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last state.
    Weights: kernel (C, units), recurrent kernel (units, units), bias (units,).
    Source: keras/src/layers/rnn/simple_rnn.py.
    """

    def operator_activations(self) -> list[Any]:
        return [self.activation]

    def operator(self, *inputs: Array, **attributes: Any) -> tuple[Array, ...]:
        return ops.rnn(*inputs, **attributes)

    def stepper(self, channels: int) -> Callable[..., list[Any]]:
        w, r = self.kernels(channels)
        b, (f, _) = self.bias(), self.functions()
        return lambda x, h: [f(x @ w + h @ r + b)]


@layer("CuDNNLSTM")
class CuDNNLSTM(LSTM):
    """Compute an LSTM as CUDA's library does: its bias (8 units,) consists of two halves that are added.

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last state.
    Weights: kernel and recurrent kernel of LSTM, bias (8 units,). Source: keras.layers.CuDNNLSTM of Keras 2.
    """

    def bias(self) -> Array:
        return np.asarray(self.blob(2, (8 * self.units,), what="bias").reshape(2, -1).sum(axis=0))


@layer("CuDNNGRU")
class CuDNNGRU(GRU):
    """Compute a GRU with reset_after as CUDA's library does: its bias is (6 units,).

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last state.
    Weights: kernel and recurrent kernel of GRU, bias (6 units,) for the input and the state. Source:
    keras.layers.CuDNNGRU of Keras 2.
    """

    def biases(self) -> Array:
        return self.blob(2, (6 * self.units,), what="bias").reshape(2, -1)

    def setup(self) -> None:
        self.reset_after = True


for _base, _what, _file in (
    (LSTM, "an LSTM", "lstm"),
    (GRU, "a GRU", "gru"),
    (SimpleRNN, "a SimpleRNN", "simple_rnn"),
):
    define(
        f"{_base.__name__}Cell",
        _base,
        f"Compute one step of {_what}, as part of an RNN.",
        f"Inputs are (N, C), each array of the state (N, units). Weights: those of {_base.__name__}.\n"
        f"    Source: keras/src/layers/rnn/{_file}.py.",
    )


@layer("RNN")
class RNN(KerasLayer):
    """Run a sequence through a recurrent cell, or through several cells in a chain.

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last states.
    Weights: those of the cells in order.
    Source: keras/src/layers/rnn/rnn.py.
    """

    harmless = frozenset({"unroll"})
    masks = "takes"
    called_with = frozenset({"mask"})

    cell: Any = attribute("any", doc="the cell, a list of cells, or StackedRNNCells")
    return_sequences: bool = attribute("bool", False, doc="whether all steps are returned, or only the last")
    return_state: bool = attribute("bool", False, doc="whether the last states are returned too")
    go_backwards: bool = attribute("bool", False, doc="whether the sequence is reversed first")
    stateful: bool = attribute("bool", False, doc="whether Keras keeps the state from call to call")
    time_major: bool = attribute("bool", False, doc="whether the sequence is (T, N, C)")
    zero_output_for_mask: bool = attribute("bool", False, doc="whether the output of masked steps is zero")

    def forward(self, x: Array, mask: Array | None = None) -> list[Array]:
        cells = self._cells()
        first, states = 0, []
        for i, spec in enumerate(cells):
            cell = self._cell_layer(spec, first, i == len(cells) - 1)
            cell.go_backwards = self.go_backwards and i == 0
            x, *last = cell.run(x, [], mask)
            self.adopt(cell, first)
            first += 2 + cell.use_bias
            states += last
        return [x, *(states if self.return_state else ())][: self.outputs]

    def _cells(self) -> list[Any]:
        spec = self.cell
        if isinstance(spec, dict) and isinstance(spec.get("config"), dict) and "cells" in spec["config"]:
            spec = spec["config"]["cells"]
        cells = spec if isinstance(spec, list) else [spec]
        need(
            cells and all(isinstance(c, dict) for c in cells),
            f"parameter 'cell' must be a cell or a list of cells, got {self.cell!r}",
        )
        need(not (self.go_backwards and len(cells) > 1), "go_backwards with several cells is not supported")
        return cells

    def _cell_layer(self, spec: Any, first: int, last: bool) -> SequenceLayer:
        use_bias = isinstance(spec.get("config"), dict) and spec["config"].get("use_bias", True)
        cell = self.inner(spec, first, 2 + bool(use_bias))
        if not isinstance(cell, SequenceLayer):
            raise LayerError(f"its cell is a {cell.type}, which is not recurrent")
        cell.return_sequences = self.return_sequences or not last
        cell.return_state = True
        cell.time_major = self.time_major
        cell.zero_output_for_mask = self.zero_output_for_mask
        return cell


_MODES = ("concat", "sum", "ave", "mul", None)


@layer("Bidirectional")
class Bidirectional(KerasLayer):
    """Run one recurrent layer over a sequence and another over the reversed sequence, and merge both.

    (N, T, C) to the outputs of both layers, merged by merge_mode; then the last states of both when they are
    returned.
    Weights: those of the forward layer, then those of the backward layer.
    Source: keras/src/layers/rnn/bidirectional.py.
    """

    masks = "takes"
    called_with = frozenset({"initial_state", "mask"})

    layer: Any = attribute("any", doc="the forward layer")
    backward_layer: Any = attribute(
        "any", None, doc="the backward layer; none: the forward layer on the reversed sequence"
    )
    merge_mode: Any = attribute("any", "concat", doc="concat, sum, ave, mul, or none: both outputs")

    def setup(self) -> None:
        need(
            self.merge_mode in _MODES, f"merge_mode must be concat, sum, ave, mul or none, got {self.merge_mode!r}"
        )

    def forward(self, *inputs: Array) -> list[Array]:
        args, kwargs = self.arguments(inputs)
        initial = kwargs.get("initial_state", args[1:])
        half, count = len(initial) // 2, len(self._blobs) // 2
        one, other = self._directions(count)
        there = one.run(args[0], initial[:half], kwargs.get("mask"))
        back = other.run(args[0], initial[half:], kwargs.get("mask"))
        self.adopt(one, 0)
        self.adopt(other, len(one.wanted))
        y = back[0]
        if other.return_sequences:
            y = y[::-1] if other.time_major else y[:, ::-1]
        return [*self._merge(there[0], y), *there[1:], *back[1:]][: self.outputs]

    def _directions(self, count: int) -> tuple[SequenceLayer, SequenceLayer]:
        turned = copy.deepcopy(self.layer)
        if self.backward_layer is None and isinstance(turned, dict) and isinstance(turned.get("config"), dict):
            turned["config"]["go_backwards"] = not turned["config"].get("go_backwards", False)
        one, other = self.inner(self.layer, 0, count), self.inner(self.backward_layer or turned, count, count)
        if not isinstance(one, SequenceLayer) or not isinstance(other, SequenceLayer):
            raise LayerError("wraps a layer that is not recurrent")
        for direction in (one, other):
            direction.zero_output_for_mask = direction.return_sequences
        return one, other

    def _merge(self, a: Array, b: Array) -> list[Array]:
        if self.merge_mode is None:
            return [a, b]
        if self.merge_mode == "concat":
            return [np.concatenate([a, b], axis=-1)]
        if self.merge_mode == "mul":
            return [a * b]
        return [a + b if self.merge_mode == "sum" else (a + b) / np.float32(2)]


@layer("TimeDistributed")
class TimeDistributed(PassesMask):
    """Apply a layer to each step of a sequence.

    (N, T, ...) to (N, T, ...). The mask of the steps does not affect the layer.
    Weights: those of the layer.
    Source: keras/src/layers/rnn/time_distributed.py.
    """

    layer: Any = attribute("any", doc="the wrapped layer")

    def forward(self, x: Array, mask: Any = None) -> Array:
        need(len(x.shape) >= 3, f"takes a sequence of rank 3 or more, got {tuple(x.shape)}")
        layer = self.inner(self.layer, 0)
        n, t, *rest = x.shape
        y = layer.forward(x.reshape(n * t, *rest))
        self.adopt(layer, 0)
        return y.reshape(n, t, *y.shape[1:])


def _join(x: Array) -> Array:
    need(len(x.shape) >= 2, f"takes a sequence of rank 2 or more, got {tuple(x.shape)}")
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


operators(
    KerasLayer,
    "Source: keras/src/layers/rnn/time_distributed.py.",
    {
        "TimeDistributed.join": row(
            "Return the steps of sequences as the items of one batch, the start of a TimeDistributed model.",
            _join, details="(N, T, ...) to (N * T, ...)."),
        "TimeDistributed.part": row(
            "Return the items of one batch as the steps of sequences, the end of a TimeDistributed model.",
            lambda y, x: y.reshape(x.shape[0], x.shape[1], *y.shape[1:]),
            details="(N * T, ...) to (N, T, ...), with N and T of the second input."),
    },
    __module__=__name__,
)  # fmt: skip
