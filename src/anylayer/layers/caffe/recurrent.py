"""Recurrent layers: LSTM, RNN, LSTMUnit, and Lstm, an older layer of nearly the same name."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.errors import plural
from anylayer.graph.symbolic import is_symbolic, same
from anylayer.layer import Layer, field, layer, need, samples
from anylayer.layers.caffe._messages import FillerParameter, filler_if_written
from anylayer.network import Array
from anylayer.tracing import is_traced


class RecurrentLayer(Layer):
    """RecurrentLayer of Caffe (src/caffe/layers/recurrent_layer.cpp).

    Inputs: x (T, N, ...), cont (T, N), optionally a static input (N, ...), and the initial state with
    `expose_hidden`. The state before step t is multiplied by cont[t]: 0 begins a sequence, 1 continues it.
    """

    message = "recurrent_param"
    numbers: ClassVar = {"": 146}
    samples: ClassVar = {1: samples.indicators}
    states: ClassVar[int] = 1
    """The number of arrays that form the state."""

    num_output: int = field(1, "uint32", 0, doc="size of the state and of the output; at least 1")
    weight_filler: FillerParameter = field(2, FillerParameter, doc="filler of the weights")
    bias_filler: FillerParameter = field(3, FillerParameter, doc="filler of the biases")
    debug_info: bool = field(4, "bool", False, doc="log the unrolled network; not used here")
    expose_hidden: bool = field(5, "bool", False, doc="take the initial state as inputs and return the last state")

    def setup(self) -> None:
        need(self.num_output > 0, f"num_output must be at least 1, got {self.num_output}")
        count = 1 + self.states * self.expose_hidden
        need(
            self.outputs == count,
            f"has {plural(count, 'output')} with expose_hidden: {str(self.expose_hidden).lower()}, "
            f"got {self.outputs}",
        )

    def split(self, inputs: Sequence[Any]) -> tuple[Any, Any, Any, list[Any]]:
        """Return x (T, N, I), cont (T, N, 1), the static input (N, S) or None, and the initial state (N, D)."""
        states = self.states * self.expose_hidden
        need(
            len(inputs) - states in (2, 3),
            f"takes {2 + states} or {3 + states} inputs (x, cont, a static input{', the state' * bool(states)}), "
            f"got {len(inputs)}",
        )
        x, cont = inputs[:2]
        need(len(x.shape) >= 2, f"x must be of shape (T, N, ...), got {tuple(x.shape)}")
        t, n = x.shape[:2]
        need(tuple(cont.shape) == (t, n), f"cont must be of shape ({t}, {n}), got {tuple(cont.shape)}")
        static = inputs[2] if len(inputs) - states == 3 else None
        if static is not None:
            need(static.shape[0] == n, f"the static input must be of shape ({n}, ...), got {tuple(static.shape)}")
            static = static.reshape(n, -1)
        return x.reshape(t, n, -1), cont[:, :, None], static, self.first(inputs[len(inputs) - states :], n)

    def first(self, states: Sequence[Any], n: int) -> list[Array]:
        """Return the state before the first step, each array (N, D)."""
        d = self.num_output
        if not states:
            self.note("each call starts with a zero state, whereas Caffe keeps the state between calls")
            return [np.zeros((n, d), np.float32) for _ in range(self.states)]
        for state in states:
            need(
                tuple(state.shape) == (1, n, d),
                f"the initial state must be of shape (1, {n}, {d}), got {tuple(state.shape)}",
            )
        return [state[0] for state in states]

    def in_one_run(self, cont: Array) -> bool:
        """Return whether `cont` is a constant that continues every sequence to the last step."""
        return not is_traced(cont) and bool((cont[1:] == 1).all())

    def with_resets(self, x: Any, cont: Any) -> tuple[Any, Any]:
        """Return `x` (T, N, I) with NaN where `cont` is neither 0 nor 1, and where `cont` is 0, as (T, N).

        Operators for any number of steps do not multiply the state by other numbers.
        """
        self.note("with an open number of steps, cont must be 0 or 1; other values give NaN")
        starts = cont == 0
        return np.where(starts | (cont == 1), x, np.float32(np.nan)), starts[:, :, 0]

    @staticmethod
    def with_static(x: Array, w: Array, static: Array | None, s: Array | None) -> tuple[Array, Array]:
        """Return `x` with the static input added to every step, and `w` with its weights as further rows."""
        if static is None:
            return x, w
        every = np.broadcast_to(static, (x.shape[0], *static.shape))
        return np.concatenate([x, every], axis=2), np.concatenate([w, s])

    @staticmethod
    def plus_static(steps: Array, static: Array | None, s: Array | None) -> Array:
        """Return `steps` (T, N, ...) plus the contribution of the static input to every step."""
        return steps if static is None else steps + static @ s

    def weights(self, index: int, rows: int, columns: int, what: str) -> Array:
        """Return weight `index` of shape (rows, columns), transposed for x @ w."""
        return self.blob(index, (rows, columns), self.weight_filler, what=what).T

    def bias(self, index: int, rows: int, what: str) -> Array:
        """Return bias `index` of shape (rows,)."""
        return self.blob(index, (rows,), self.bias_filler, what=what)


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
