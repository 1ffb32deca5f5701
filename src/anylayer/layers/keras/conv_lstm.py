"""LSTMs whose products are convolutions."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import need
from anylayer.layer.arguments import channels_first, restored
from anylayer.layer.fields import attribute
from anylayer.layers.keras._activations import activation
from anylayer.layers.keras._base import by_rank
from anylayer.layers.keras._spatial import KernelLayer, kernel_first
from anylayer.layers.keras._state import StateLayer
from anylayer.network import Array


class ConvLSTM(StateLayer, KernelLayer):
    """An LSTM whose products are convolutions (arXiv 1506.04214).

    (N, T, ..., C) to (N, ..., filters), or (N, T, ..., filters) with return_sequences; with return_state also the
    last state's two arrays.
    Weights: kernel (k ..., C, 4 filters), recurrent kernel (k ..., filters, 4 filters), bias (4 filters,), for the
    gates i, f, c, o. Source: keras/src/layers/rnn/conv_lstm.py.
    """

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
        parts = self._of_inputs(x.reshape(n * t, *x.shape[2:]))
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

    def _of_inputs(self, x: Array) -> Array:
        """Return the contribution of the inputs (items, ..., C) to the gates: (items, 4 filters, ...)."""
        x = channels_first(x, self.data_format)
        w = self.blob(0, (*self.kernel, x.shape[1], 4 * self.filters), what="kernel")
        pads = self.pads(x.shape[2:], self.kernel, self.steps, self.dilations)
        bias = self.bias(2, 4 * self.filters)
        return ops.conv(x, kernel_first(w), bias, strides=self.steps, pads=pads, dilations=self.dilations)


by_rank(
    ConvLSTM,
    "Compute an LSTM whose products are convolutions over {axes}.",
    """(N, steps, {sizes}, C) to (N, {new}, filters), or (N, steps, {new}, filters) with return_sequences; with
    return_state also the last state's two arrays.
    Weights: kernel ({kernel}, C, 4 filters), recurrent kernel ({kernel}, filters, 4 filters), bias (4 filters,),
    for the gates i, f, c, o.
    Source: arXiv 1506.04214; keras/src/layers/rnn/conv_lstm{rank}d.py.""",
)
