"""LSTMUnit."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, layer, need, samples
from anylayer.network import Array


@layer("LSTMUnit")
class LSTMUnit(Layer):
    """Compute one step of a long short-term memory from its gates: the layer inside LSTM.

    State c (1, N, D), gates (1, N, 4 D) in the order i, f, o, g, and cont (1, N) to the new state c and h, each of
    shape (1, N, D):

        c = cont sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c)

    Source: BVLC/caffe src/caffe/layers/lstm_unit_layer.cpp.
    """

    samples = {2: samples.indicators}

    def forward(self, c: Array, gates: Array, cont: Array) -> list[Array]:
        shape = tuple(c.shape)
        need(len(shape) == 3 and shape[0] == 1, f"the state (input 0) must be of shape (1, N, D), got {shape}")
        for what, x, expected in (
            ("the gates (input 1)", gates, (1, shape[1], 4 * shape[2])),
            ("cont (input 2)", cont, (1, shape[1])),
        ):
            need(tuple(x.shape) == expected, f"{what} must be of shape {expected}, got {tuple(x.shape)}")
        need(self.outputs == 2, f"has 2 outputs (c, h), got {self.outputs}")
        d = shape[2]
        opened = ops.sigmoid(gates[:, :, : 3 * d])
        c = cont[:, :, None] * opened[:, :, d : 2 * d] * c + opened[:, :, :d] * np.tanh(gates[:, :, 3 * d :])
        return [c, opened[:, :, 2 * d :] * np.tanh(c)]
