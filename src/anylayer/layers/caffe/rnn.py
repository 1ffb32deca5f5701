"""RNN."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.graph.symbolic import is_symbolic
from anylayer.layer import layer
from anylayer.layers.caffe._recurrent import RecurrentLayer
from anylayer.network import Array

_SATURATED = np.float32(1e4)
"""An argument at which a sigmoid is 1."""


@layer("RNN")
class RNN(RecurrentLayer):
    """Compute a simple recurrent network over sequences whose starts `cont` marks.

    x (T, N, I) and cont (T, N), optionally a static input and the initial state, to o (T, N, D); with
    expose_hidden also the last h (1, N, D). h = tanh(W x + b + W (cont h)), o = tanh(W h + b).
    Blobs: W of x (D, I), b of h (D), optionally W of the static input (D, S), W of h (D, D), W of o (D, D), b of o
    (D).
    Source: BVLC/caffe src/caffe/layers/rnn_layer.cpp.
    """

    def forward(self, *inputs: Array) -> list[Array]:
        x, cont, static, (h,) = self.split(inputs)
        d = self.num_output
        w, bias = self.weights(0, d, x.shape[2], "W of x"), self.bias(1, d, "b of h")
        s = None if static is None else self.weights(2, d, static.shape[1], "W of the static input")
        following = 2 if static is None else 3
        of_h = self.weights(following, d, d, "W of h")
        if self.in_one_run(cont):
            x, w = self.with_static(x, w, static, s)
            both = np.concatenate([bias, np.zeros(d, np.float32)])[None]
            state: dict[str, Any] = {"initial_h": (h * cont[0])[None], "hidden_size": d}
            steps, last = ops.rnn(x, w.T.copy()[None], of_h.T.copy()[None], both, **state)
            steps, h = steps[:, 0], last[0]
        elif is_symbolic(x.shape[0]):
            x, w = self.with_static(x, w, static, s)
            steps, h = self.run_with_resets(*self.with_resets(x, cont), w, bias, of_h, h)
        else:
            steps, h = self.run_stepwise(self.plus_static(x @ w + bias, static, s), cont, of_h, h)
        of_o, bias = self.weights(following + 1, d, d, "W of o"), self.bias(following + 2, d, "b of o")
        return [np.tanh(steps @ of_o + bias), h[None]][: self.outputs]

    def run_with_resets(self, x: Any, starts: Any, w: Any, bias: Any, of_h: Any, h: Any) -> tuple[Any, Any]:
        """Return all steps and the last state, computed by ONNX's GRU for any number of steps.

        Its update gate is always closed. Its reset gate is closed where a sequence starts (`starts` (T, N)).
        """
        d = self.num_output
        marks = np.where(starts[:, :, None], -_SATURATED, _SATURATED)
        none = np.zeros((x.shape[2], d), np.float32)
        of_x = np.concatenate(
            [np.concatenate([none, none, w], 1), np.repeat(np.array([0, 1, 0], np.float32), d)[None]]
        )
        of_state = np.concatenate([np.zeros((d, 2 * d), np.float32), of_h], 1)
        biases = np.concatenate([np.full(d, -_SATURATED, np.float32), np.zeros(d, np.float32), bias])
        steps, last = ops.gru(
            np.concatenate([x, marks], 2),
            np.ascontiguousarray(of_x.T)[None],
            np.ascontiguousarray(of_state.T)[None],
            np.concatenate([biases, np.zeros(3 * d, np.float32)])[None],
            initial_h=h[None],
            hidden_size=d,
            linear_before_reset=True,
        )
        return steps[:, 0], last[0]

    def run_stepwise(self, gates: Array, cont: Array, of_h: Array, h: Array) -> tuple[Array, Array]:
        """Return all steps and the last state, computed step by step, since `cont` is not a constant."""
        steps = []
        for t in range(gates.shape[0]):
            h = np.tanh(gates[t] + (h * cont[t]) @ of_h)
            steps.append(h)
        return np.stack(steps), h
