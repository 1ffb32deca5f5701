"""RNN."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import layer
from anylayer.layers.caffe._recurrent import Recurrent


@layer("RNN")
class RNN(Recurrent):
    """A simple recurrent network: h = tanh(W x + b + W (cont h)); o = tanh(W h + b).

    Blobs: W of x (D, I), b of h (D), W of the static input (D, S) where there is one, W of h (D, D), W of o
    (D, D), b of o (D). Source: BVLC/caffe src/caffe/layers/rnn_layer.cpp.
    """

    def forward(self, *inputs: Any) -> Any:
        """x (T, N, I), cont (T, N) ... to o (T, N, D); with expose_hidden also the last h (1, N, D)."""
        x, cont, static, (h,) = self.split(inputs)
        d = self.num_output
        given = x @ self.weights(0, d, x.shape[2], "W of x") + self.bias(1, d, "b of h")
        following = 2
        if static is not None:
            given = given + static @ self.weights(2, d, static.shape[1], "W of the static input")
            following = 3
        of_h = self.weights(following, d, d, "W of h")
        steps = []
        for t in range(x.shape[0]):
            h = np.tanh(given[t] + (h * cont[t]) @ of_h)
            steps.append(h)
        of_o, bias = self.weights(following + 1, d, d, "W of o"), self.bias(following + 2, d, "b of o")
        return [np.tanh(np.stack(steps) @ of_o + bias), h[None]][: self.outputs]
