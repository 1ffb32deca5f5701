"""LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import layer
from anylayer.layers.caffe._recurrent import Recurrent


@layer("LSTM")
class LSTM(Recurrent):
    """Long short-term memory: gates i, f, o, g of W x + b + W (cont h); c = cont f c + i g; h = o tanh(c).

    Blobs: W of x (4 D, I), b (4 D), W of the static input (4 D, S) where there is one, W of h (4 D, D).
    Source: BVLC/caffe src/caffe/layers/lstm_layer.cpp, lstm_unit_layer.cpp.
    """

    states = 2

    def forward(self, *inputs: Any) -> Any:
        """x (T, N, I), cont (T, N) ... to h (T, N, D); with expose_hidden also the last h and c (1, N, D)."""
        x, cont, static, (h, c) = self.split(inputs)
        d = self.num_output
        gates = x @ self.weights(0, 4 * d, x.shape[2], "W of x") + self.bias(1, 4 * d, "b")
        if static is not None:
            gates = gates + static @ self.weights(2, 4 * d, static.shape[1], "W of the static input")
        of_h = self.weights(2 if static is None else 3, 4 * d, d, "W of h")
        steps = []
        for t in range(x.shape[0]):
            given = gates[t] + (h * cont[t]) @ of_h
            open_ = ops.sigmoid(given[:, : 3 * d])
            c = cont[t] * open_[:, d : 2 * d] * c + open_[:, :d] * np.tanh(given[:, 3 * d :])
            h = open_[:, 2 * d :] * np.tanh(c)
            steps.append(h)
        return [np.stack(steps), h[None], c[None]][: self.outputs]
