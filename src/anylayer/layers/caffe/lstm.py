"""LSTM."""

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


@layer("LSTM")
class LSTM(RecurrentLayer):
    """Compute a long short-term memory over sequences whose starts `cont` marks.

    x (T, N, I) and cont (T, N), optionally a static input and the initial state, to h (T, N, D); with
    expose_hidden also the last h and c (1, N, D).

        i, f, o, g = gates of W x + b + W (cont h), with sigmoid for i, f, o and tanh for g
        c = cont f c + i g;  h = o tanh(c)

    Blobs: W of x (4 D, I), b (4 D), optionally W of the static input (4 D, S), W of h (4 D, D).
    Source: BVLC/caffe src/caffe/layers/lstm_layer.cpp, lstm_unit_layer.cpp.
    """

    states = 2

    def forward(self, *inputs: Array) -> list[Array]:
        x, cont, static, (h, c) = self.split(inputs)
        d = 4 * self.num_output
        w, bias = self.weights(0, d, x.shape[2], "W of x"), self.bias(1, d, "b")
        s = None if static is None else self.weights(2, d, static.shape[1], "W of the static input")
        of_h = self.weights(2 if static is None else 3, d, self.num_output, "W of h")
        if self.in_one_run(cont):
            x, w = self.joined(x, w, static, s)
            steps, h, c = self.run(x, w, bias, of_h, h * cont[0], c * cont[0])
        elif is_symbolic(x.shape[0]):
            x, w = self.joined(x, w, static, s)
            steps, h, c = self.run_with_resets(*self.marked(x, cont), w, bias, of_h, h, c)
        else:
            steps, h, c = self.unrolled(self.summed(x @ w + bias, static, s), cont, of_h, h, c)
        return [steps, h[None], c[None]][: self.outputs]

    def unrolled(self, gates: Array, cont: Array, of_h: Array, h: Array, c: Array) -> tuple[Array, Array, Array]:
        """Return all steps and the last state, computed step by step, since `cont` is not a constant."""
        d = self.num_output
        steps = []
        for t in range(gates.shape[0]):
            given = gates[t] + (h * cont[t]) @ of_h
            opened = ops.sigmoid(given[:, : 3 * d])
            c = cont[t] * opened[:, d : 2 * d] * c + opened[:, :d] * np.tanh(given[:, 3 * d :])
            h = opened[:, 2 * d :] * np.tanh(c)
            steps.append(h)
        return np.stack(steps), h, c

    def run_with_resets(
        self, x: Any, starts: Any, w: Any, bias: Any, of_h: Any, h: Any, c: Any
    ) -> tuple[Any, Any, Any]:
        """Return all steps and the last state, computed by ONNX's LSTM for any number of steps.

        Before each step at which a sequence starts (`starts` (T, N)), a further step closes all gates, which
        resets the state. So a sample takes at most 2 T steps. The steps after its last one keep c.
        """
        t, n = x.shape[:2]
        places = np.arange(t)[:, None] + np.cumsum(starts.astype(np.int64), axis=0)
        samples = np.broadcast_to(np.arange(n), (t, n))
        after = (np.arange(2 * t)[:, None] > places[-1]).astype(np.float32)[:, :, None]
        steps = np.concatenate([np.zeros((2 * t, n, x.shape[2]), np.float32), 1 - after, after], 2)
        steps[places, samples] = np.concatenate([x, np.zeros((t, n, 2), np.float32)], 2)
        gates = _SATURATED * np.array([[-1, -1, -1, 0], [-1, 1, -1, 0]], np.float32).repeat(
            self.num_output, axis=1
        )
        found, _, c = self.run(steps, np.concatenate([w, gates]), bias, of_h, h, c)
        found = found[places, samples]
        return found, found[-1], c

    def run(self, x: Array, w: Array, bias: Array, of_h: Array, h: Array, c: Array) -> tuple[Array, Array, Array]:
        """Return all steps and the last state of one sequence per image, by ONNX's LSTM with gates i, o, f, g."""
        gates = np.arange(4 * self.num_output).reshape(4, -1)[[0, 2, 1, 3]].reshape(-1)
        both = np.concatenate([bias[gates], np.zeros(len(gates), np.float32)])
        steps, h, c = ops.lstm(
            x,
            np.ascontiguousarray(w.T[gates])[None],
            np.ascontiguousarray(of_h.T[gates])[None],
            both[None],
            initial_h=h[None],
            initial_c=c[None],
            hidden_size=self.num_output,
        )
        return steps[:, 0], h[0], c[0]
