"""Recurrent layers: LSTM, RNN, LSTMUnit, and Lstm, an older layer of nearly the same name."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.errors import plural
from anylayer.layer import Array, Layer, field, layer, need, need_shape, samples
from anylayer.layer.arguments import same
from anylayer.layers.caffe._messages import FillerParameter, written_filler


class RecurrentLayer(Layer):
    """RecurrentLayer of Caffe (src/caffe/layers/recurrent_layer.cpp).

    Inputs: x (T, N, ...), cont (T, N), optionally a static input (N, ...), and the initial state with
    `expose_hidden`. The state before step t is multiplied by cont[t]: 0 begins a sequence, 1 continues it. With an
    open number of steps, cont must be 0 or 1; other values give NaN.
    """

    message = "recurrent_param"
    numbers: ClassVar = {"": 146}
    samples: ClassVar = {1: samples.indicators}
    states: ClassVar[int] = 1
    """The number of arrays that form the state."""

    num_output: int = field(1, "uint32", 0, least=1, doc="size of the state and of the output; at least 1")
    weight_filler: FillerParameter = field(2, FillerParameter, doc="filler of the weights")
    bias_filler: FillerParameter = field(3, FillerParameter, doc="filler of the biases")
    debug_info: bool = field(4, "bool", False, doc="log the unrolled network; not used here")
    expose_hidden: bool = field(5, "bool", False, doc="take the initial state as inputs and return the last state")

    def setup(self) -> None:
        count = 1 + self.states * self.expose_hidden
        need(
            self.outputs == count,
            f"has {plural(count, 'output')} with expose_hidden: {str(self.expose_hidden).lower()}, "
            f"got {self.outputs}",
        )

    def recurrence(self, inputs: Sequence[Any], gates: int, bias: str) -> tuple[list[Any], Any, list[Array], int]:
        """Return (x, weights of x, bias, weights of the state), cont, the initial state, and the number of blobs.

        x is (T, N, I), with the static input as a part of it in every step, cont (T, N), and each array of the
        state (N, D). Messages call the bias `bias`.
        """
        states = self.states * self.expose_hidden
        need(
            len(inputs) - states in (2, 3),
            f"takes {2 + states} or {3 + states} inputs (x, cont, a static input{', the state' * bool(states)}), "
            f"got {len(inputs)}",
        )
        x, cont = inputs[:2]
        need_shape(x, ("T", "N", "..."), "x")
        t, n = x.shape[:2]
        need_shape(cont, (t, n), "cont")
        self.note("with an open number of steps, cont must be 0 or 1; other values give NaN", open_size=t)
        x, rows, count = x.reshape(t, n, -1), gates * self.num_output, 2
        weights = self.weights(0, rows, x.shape[2], "W of x")
        biases = self.blob(1, (rows,), self.bias_filler, what=bias)
        if len(inputs) - states == 3:
            static = inputs[2]
            need(static.shape[0] == n, f"the static input must be of shape ({n}, ...), got {tuple(static.shape)}")
            static = static.reshape(n, -1)
            of_static = self.weights(2, rows, static.shape[1], "W of the static input")
            x = np.concatenate([x, np.broadcast_to(static, (t, *static.shape))], axis=2)
            weights, count = np.concatenate([weights, of_static], axis=1), 3
        of_state = self.weights(count, rows, self.num_output, "W of h")
        state = self.first(inputs[len(inputs) - states :], n)
        return [x, weights, biases, of_state], cont, state, count + 1

    def first(self, states: Sequence[Any], n: int) -> list[Array]:
        """Return the state before the first step, each array (N, D)."""
        d = self.num_output
        if not states:
            self.note("each call starts with a zero state, whereas Caffe keeps the state between calls")
            return [np.zeros((n, d), np.float32) for _ in range(self.states)]
        for state in states:
            need_shape(state, (1, n, d), "the initial state")
        return [state[0] for state in states]

    def weights(self, index: int, rows: int, columns: int, what: str) -> Array:
        """Return weight `index` of shape (rows, columns)."""
        return self.blob(index, (rows, columns), self.weight_filler, what=what)


def _lstm(
    x: Array, w: Array, bias: Array, of_h: Array, h: Array, c: Array, keep: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return all steps (T, N, D) and the last states h and c (N, D) by ONNX's LSTM, whose gates are i, o, f, g.

    The rows of `w` (4 D, I), `bias` (4 D,) and `of_h` (4 D, D) are in Caffe's order i, f, o, g.
    """
    d = of_h.shape[1]
    gates = np.arange(4 * d).reshape(4, -1)[[0, 2, 1, 3]].reshape(-1)
    both = np.concatenate([bias[gates], np.zeros(len(gates), np.float32)])
    steps, h, c = ops.lstm(
        x,
        w[gates][None],
        of_h[gates][None],
        both[None],
        initial_h=h[None],
        initial_c=c[None],
        hidden_size=d,
        keep=keep,
    )
    return steps[:, 0], h[0], c[0]


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
        (x, w, bias, of_h), cont, (h, c), _ = self.recurrence(inputs, 4, "b")
        steps, h, c = _lstm(x, w, bias, of_h, h, c, cont)
        return [steps, h[None], c[None]][: self.outputs]


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
    num_output: int = field(1, "uint32", 0, least=1, doc="size of the state and of the output; at least 1")
    clipping_threshold: float = field(2, "float", 0.0, doc="of gradients (training)")
    weight_filler: FillerParameter = field(3, FillerParameter, doc="filler of the weights without a weights file")
    bias_filler: FillerParameter = field(4, FillerParameter, doc="values of the bias without a file; default 0")
    batch_size: int = field(5, "uint32", 1, doc="no effect: axis 1 of the input has the sequences")

    def forward(self, x: Array, cont: Array | None = None) -> Array:
        need(len(x.shape) >= 3, f"x must be of shape (T, N, ...), got {tuple(x.shape)}")
        t, n, d = *x.shape[:2], self.num_output
        filler = written_filler(self, "weight_filler")
        size, count = x.shape[2], prod(x.shape)
        w = self.blob(0, (4 * d, size), filler, what="W of x")
        of_h = self.blob(1, (4 * d, d), filler, what="W of h")
        bias = self.blob(2, (4 * d,), self.bias_filler, what="b")
        if not same(count, t * n * size):
            self.note(f"only the first T * N * {size} elements of x are read, a fault of Sophgo's Caffe")
        x = x.reshape(count)[: t * n * size].reshape(t, n, size)
        zero = np.zeros((n, d), np.float32)
        if cont is None and same(n, 1):
            return _lstm(x, w, bias, of_h, zero, zero)[0]
        if not same(n, 1):
            self.note("all sequences take the recurrent term of sequence 0, a fault of Sophgo's Caffe")
        return self._run_stepwise(x @ w.T + bias, self._continues(cont, t, n), of_h.T, zero)

    def _continues(self, cont: Array | None, t: int, n: int) -> Array:
        """Return (T, N, 1): whether the state before a step is used."""
        if cont is None:
            return np.broadcast_to(np.arange(t)[:, None, None] > 0, (t, n, 1))
        need_shape(cont, (t * n,), "cont")
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
            need_shape(x, expected, what)
        need(self.outputs == 2, f"has 2 outputs (c, h), got {self.outputs}")
        d = shape[2]
        opened = ops.sigmoid(gates[:, :, : 3 * d])
        c = cont[:, :, None] * opened[:, :, d : 2 * d] * c + opened[:, :, :d] * np.tanh(gates[:, :, 3 * d :])
        return [c, opened[:, :, 2 * d :] * np.tanh(c)]


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
        (x, w, bias, of_h), cont, (h,), count = self.recurrence(inputs, 1, "b of h")
        d = self.num_output
        both = np.concatenate([bias, np.zeros(d, np.float32)])[None]
        steps, last = ops.rnn(x, w[None], of_h[None], both, initial_h=h[None], hidden_size=d, keep=cont)
        of_o, bias = (
            self.weights(count, d, d, "W of o"),
            self.blob(count + 1, (d,), self.bias_filler, what="b of o"),
        )
        return [np.tanh(steps[:, 0] @ of_o.T + bias), last][: self.outputs]
