"""LSTM, and Lstm, an older layer of the same name."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.graph.symbolic import is_symbolic, same
from anylayer.layer import Layer, field, layer, need, samples
from anylayer.layers.caffe._messages import FillerParameter, filler_if_written
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
            x, w = self.with_static(x, w, static, s)
            steps, h, c = self.run(x, w, bias, of_h, h * cont[0], c * cont[0])
        elif is_symbolic(x.shape[0]):
            x, w = self.with_static(x, w, static, s)
            steps, h, c = self.run_with_resets(*self.with_resets(x, cont), w, bias, of_h, h, c)
        else:
            steps, h, c = self.run_stepwise(self.plus_static(x @ w + bias, static, s), cont, of_h, h, c)
        return [steps, h[None], c[None]][: self.outputs]

    def run_stepwise(
        self, gates: Array, cont: Array, of_h: Array, h: Array, c: Array
    ) -> tuple[Array, Array, Array]:
        """Return all steps and the last state, computed step by step, since `cont` is not a constant."""
        d = self.num_output
        steps = []
        for t in range(gates.shape[0]):
            gate = gates[t] + (h * cont[t]) @ of_h
            opened = ops.sigmoid(gate[:, : 3 * d])
            c = cont[t] * opened[:, d : 2 * d] * c + opened[:, :d] * np.tanh(gate[:, 3 * d :])
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
        states, _, c = self.run(steps, np.concatenate([w, gates]), bias, of_h, h, c)
        states = states[places, samples]
        return states, states[-1], c

    def run(self, x: Array, w: Array, bias: Array, of_h: Array, h: Array, c: Array) -> tuple[Array, Array, Array]:
        """Return all steps and the last state of one sequence per image."""
        return one_run(x, w, bias, of_h, h, c)


def one_run(x: Array, w: Array, bias: Array, of_h: Array, h: Array, c: Array) -> tuple[Array, Array, Array]:
    """Return all steps and the last state of one sequence per image, by ONNX's LSTM with gates i, o, f, g.

    The gates of `w` (I, 4 D), `bias` (4 D,) and `of_h` (D, 4 D) are in Caffe's order i, f, o, g.
    """
    d = of_h.shape[0]
    gates = np.arange(4 * d).reshape(4, -1)[[0, 2, 1, 3]].reshape(-1)
    both = np.concatenate([bias[gates], np.zeros(len(gates), np.float32)])
    steps, h, c = ops.lstm(
        x,
        np.ascontiguousarray(w.T[gates])[None],
        np.ascontiguousarray(of_h.T[gates])[None],
        both[None],
        initial_h=h[None],
        initial_c=c[None],
        hidden_size=d,
    )
    return steps[:, 0], h[0], c[0]


@layer("Lstm")
class Lstm(Layer):
    """Compute a long short-term memory as Sophgo's Caffe does, with its two faults for several sequences.

    x (T, N, I, ...), of which the first T * N * I elements are read, and optionally cont (T * N,) to h (T, N, D).
    The equations are those of LSTM. With N sequences, the term W (cont h) is that of sequence 0 in all of them,
    and sequence n of step t takes cont[t + n]; in a layer without these faults it would be cont[t * N + n].
    Without cont, the sequences begin in the first step. `batch_size` and `clipping_threshold` have no effect.
    Blobs: W of x (4 D, I), W of h (4 D, D), b (4 D).
    Source: the Caffe in tpu-mlir 1.30.2 (executed), after junhyukoh/caffe-lstm src/caffe/layers/lstm_layer.cpp.
    """

    message = "lstm_param"
    samples: ClassVar = {1: samples.indicators}
    numbers: ClassVar = {"": 310, "sophgo": 310}
    num_output: int = field(1, "uint32", 0, doc="size of the state and of the output; at least 1")
    clipping_threshold: float = field(2, "float", 0.0, doc="of gradients (training)")
    weight_filler: FillerParameter = field(3, FillerParameter, doc="filler of the weights without a weights file")
    bias_filler: FillerParameter = field(4, FillerParameter, doc="values of the bias without a file; default 0")
    batch_size: int = field(5, "uint32", 1, doc="no effect: axis 1 of the input has the sequences")

    def setup(self) -> None:
        need(self.num_output > 0, f"num_output must be at least 1, got {self.num_output}")

    def forward(self, x: Array, cont: Array | None = None) -> Any:
        need(len(x.shape) >= 3, f"x must be of shape (T, N, ...), got {tuple(x.shape)}")
        t, n, d = *x.shape[:2], self.num_output
        filler = filler_if_written(self.weight_filler, self.has("weight_filler"))
        size, count = x.shape[2], prod(x.shape)
        w = self.blob(0, (4 * d, size), filler, what="W of x").T
        of_h = self.blob(1, (4 * d, d), filler, what="W of h").T
        bias = self.blob(2, (4 * d,), self.bias_filler, what="b")
        if not same(count, t * n * size):
            self.note(f"only the first T * N * {size} elements of x are read, a fault of Sophgo's Caffe")
        x = x.reshape(count)[: t * n * size].reshape(t, n, size)
        zero = np.zeros((n, d), np.float32)
        if cont is None and same(n, 1):
            return one_run(x, w, bias, of_h, zero, zero)[0]
        if not same(n, 1):
            self.note("all sequences take the recurrent term of sequence 0, a fault of Sophgo's Caffe")
        return self._run_stepwise(x @ w + bias, self._continues(cont, t, n), of_h, zero)

    def _continues(self, cont: Array | None, t: int, n: int) -> Any:
        """Return (T, N, 1): whether the state before a step is used."""
        if cont is None:
            return np.broadcast_to(np.arange(t)[:, None, None] > 0, (t, n, 1))
        need(tuple(cont.shape) == (t * n,), f"cont must be of shape ({t * n},), got {tuple(cont.shape)}")
        self.note("each call starts with a zero state, whereas Caffe keeps the state between calls")
        if not same(n, 1):
            self.note("sequence n of step t takes cont[t + n], a fault of Sophgo's Caffe")
        return (cont != 0)[np.arange(t)[:, None] + np.arange(n)][:, :, None]

    def _run_stepwise(self, gates: Array, continued: Array, of_h: Array, zero: Array) -> Array:
        """Return all steps (T, N, D) for the gates of x (T, N, 4 D)."""
        d, h, c, steps = self.num_output, zero, zero, []
        for t in range(gates.shape[0]):
            gate = gates[t] + np.where(continued[t], h[:1] @ of_h, np.float32(0))
            opened = ops.sigmoid(gate[:, : 3 * d])
            remembered = np.where(continued[t], opened[:, d : 2 * d] * c, np.float32(0))
            c = remembered + opened[:, :d] * np.tanh(gate[:, 3 * d :])
            h = opened[:, 2 * d :] * np.tanh(c)
            steps.append(h)
        return np.stack(steps)
