"""Recurrent layers: sequences and single cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, layer, need
from anylayer.layers.openvino._base import OpenVINOLayer

_NAMES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "hardsigmoid": "HardSigmoid"}


class RecurrentOperation(OpenVINOLayer):
    """The attributes of all recurrent layers."""

    hidden_size: int = attribute("int64")
    direction: str = attribute(Enum("forward", "reverse", "bidirectional"), "forward")
    activations: str = attribute("string", "")
    activations_alpha: tuple[float, ...] = attribute("float", (), repeated=True)
    activations_beta: tuple[float, ...] = attribute("float", (), repeated=True)
    clip: float = attribute("float", 0.0, doc="limit of the sums before the activations; 0: none")

    def options(self, default: str) -> dict[str, Any]:
        """Return the attributes as keyword arguments of the recurrent operators of `anylayer.ops`."""
        need(
            not self.activations_alpha and not self.activations_beta,
            "activations_alpha and activations_beta are not supported",
        )
        names = [n.strip().lower() for n in (self.activations or default).split(",")]
        for name in names:
            need(name in _NAMES, f"the activation '{name}' is not supported; supported: {', '.join(_NAMES)}")
        both = 2 if self.direction == "bidirectional" else 1
        return {
            "hidden_size": self.hidden_size,
            "direction": self.direction,
            "activations": [_NAMES[n] for n in names] * both,
            "clip": self.clip or None,
        }


def gates(w: Array, order: list[int], hidden: int) -> Array:
    """Return weights (D, G * H, ...) with their gates permuted."""
    parts = [w[:, g * hidden : (g + 1) * hidden] for g in order]
    return np.concatenate(parts, axis=1)


def lengths(numbers: Array, x: Array) -> Array | None:
    """Return the lengths of the sequences as int32, or None when all of them have full length."""
    if isinstance(numbers, np.ndarray) and (numbers == x.shape[1]).all():
        return None
    return numbers.astype(np.int32)


def _swap_batch_and_time(x: Array) -> Array:
    """Return (B, T, ...) as (T, B, ...), or back."""
    return x.swapaxes(0, 1)


_LSTM = [1, 3, 0, 2]
"""Permutation of the gates from the order f, i, c, o of OpenVINO to the order i, o, f, c of ONNX."""


def _lstm(
    self: RecurrentOperation, x: Array, h: Array, c: Array, lens: Array | None, w: Array, r: Array, b: Array
) -> Any:
    n = self.hidden_size
    w, r, b = (gates(v, _LSTM, n) for v in (w, r, b))
    b = np.concatenate([b, np.zeros(b.shape, b.dtype)], axis=1)
    return ops.lstm(x, w, r, b, lens, h, c, **self.options("sigmoid,tanh,tanh"))


def _gru(self: Any, x: Array, h: Array, lens: Array | None, w: Array, r: Array, b: Array) -> Any:
    n, linear = self.hidden_size, self.linear_before_reset
    size = 4 * n if linear else 3 * n
    need(b.shape[1] == size, f"the bias must have {size} numbers per direction, got {b.shape[1]}")
    inner = np.zeros((b.shape[0], 3 * n), b.dtype)
    if linear:
        inner = np.concatenate([inner[:, : 2 * n], b[:, 3 * n :]], axis=1)
    b = np.concatenate([b[:, : 3 * n], inner], axis=1)
    return ops.gru(x, w, r, b, lens, h, linear_before_reset=linear, **self.options("sigmoid,tanh"))


def _rnn(self: RecurrentOperation, x: Array, h: Array, lens: Array | None, w: Array, r: Array, b: Array) -> Any:
    b = np.concatenate([b, np.zeros(b.shape, b.dtype)], axis=1)
    return ops.rnn(x, w, r, b, lens, h, **self.options("tanh"))


def _batch_first(y: Array) -> Array:
    """Return outputs (T, D, B, H) as (B, D, T, H)."""
    return y.transpose(2, 1, 0, 3)


class _OfOneState(RecurrentOperation):
    """A recurrence whose only state is h."""

    def operator(self, *inputs: Any) -> Any:
        """Return the steps and the last h. The inputs are x (T, B, I), h (D, B, H), lengths, w, r and b."""
        raise NotImplementedError


class _SequenceOfOneState(_OfOneState):
    def forward(self, x: Array, h: Array, lens: Array, w: Array, r: Array, b: Array) -> Any:
        y, last = self.operator(_swap_batch_and_time(x), _swap_batch_and_time(h), lengths(lens, x), w, r, b)
        return (_batch_first(y), _swap_batch_and_time(last))[: self.outputs]


class _CellOfOneState(_OfOneState):
    def forward(self, x: Array, h: Array, w: Array, r: Array, b: Array) -> Any:
        _, last = self.operator(x[None], h[None], None, w[None], r[None], b[None])
        return last[0]


@layer("LSTMSequence")
class LSTMSequence(RecurrentOperation):
    """Compute a long short-term memory over sequences (B, T, I).

    Inputs: x; initial states h and c (B, D, H); lengths (B,); w (D, 4 H, I), r (D, 4 H, H), b (D, 4 H), for the
    gates f, i, c, o. D is 2 for direction bidirectional, else 1. Outputs: all steps (B, D, T, H), the last h and c
    (B, D, H).
    Source: OpenVINO operation specification, LSTMSequence-1 and LSTMSequence-5.
    """

    def forward(self, x: Array, h: Array, c: Array, lens: Array, w: Array, r: Array, b: Array) -> Any:
        y, last, cell = _lstm(
            self,
            _swap_batch_and_time(x),
            _swap_batch_and_time(h),
            _swap_batch_and_time(c),
            lengths(lens, x),
            w,
            r,
            b,
        )
        return (_batch_first(y), _swap_batch_and_time(last), _swap_batch_and_time(cell))[: self.outputs]


@layer("GRUSequence")
class GRUSequence(_SequenceOfOneState):
    """Compute a gated recurrent unit over sequences (B, T, I).

    Inputs: x; initial state h (B, D, H); lengths (B,); w (D, 3 H, I), r (D, 3 H, H), b (D, 3 H), or (D, 4 H) with
    linear_before_reset, for the gates z, r, h. Outputs: all steps (B, D, T, H), the last h (B, D, H).
    Source: OpenVINO operation specification, GRUSequence-5.
    """

    linear_before_reset: bool = attribute("bool", False)

    def operator(self, *inputs: Any) -> Any:
        return _gru(self, *inputs)


@layer("RNNSequence")
class RNNSequence(_SequenceOfOneState):
    """Compute h = f(x @ w^T + h @ r^T + b) over sequences (B, T, I).

    Inputs: x; initial state h (B, D, H); lengths (B,); w (D, H, I), r (D, H, H), b (D, H). Outputs: all steps (B,
    D, T, H), the last h (B, D, H).
    Source: OpenVINO operation specification, RNNSequence-5.
    """

    def operator(self, *inputs: Any) -> Any:
        return _rnn(self, *inputs)


@layer("LSTMCell")
class LSTMCell(RecurrentOperation):
    """Compute one step of a long short-term memory.

    x (B, I), h and c (B, H), w (4 H, I), r (4 H, H), b (4 H,), for the gates f, i, c, o, to h and c (B, H).
    Source: OpenVINO operation specification, LSTMCell-4.
    """

    def forward(self, x: Array, h: Array, c: Array, w: Array, r: Array, b: Array) -> tuple[Array, Array]:
        _, last, cell = _lstm(self, x[None], h[None], c[None], None, w[None], r[None], b[None])
        return (last[0], cell[0])[: self.outputs]


@layer("GRUCell")
class GRUCell(_CellOfOneState):
    """Compute one step of a gated recurrent unit.

    x (B, I), h (B, H), w (3 H, I), r (3 H, H), b (3 H,), or (4 H,) with linear_before_reset, to h (B, H).
    Source: OpenVINO operation specification, GRUCell-3.
    """

    linear_before_reset: bool = attribute("bool", False)

    def operator(self, *inputs: Any) -> Any:
        return _gru(self, *inputs)


@layer("RNNCell")
class RNNCell(_CellOfOneState):
    """Compute one step h = f(x @ w^T + h @ r^T + b).

    x (B, I), h (B, H), w (H, I), r (H, H), b (H,) to h (B, H).
    Source: OpenVINO operation specification, RNNCell-0.
    """

    def operator(self, *inputs: Any) -> Any:
        return _rnn(self, *inputs)
