"""Recurrent layers: sequences and single cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layers._table import operators, row
from anylayer.layers.openvino._base import SPECIFICATION, OpenVINOLayer
from anylayer.network import Function

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


Options = Callable[[str], dict[str, Any]]
"""The method `options`."""


def _lstm(
    x: Array, h: Array, c: Array, lens: Array | None, w: Array, r: Array, b: Array, n: int, options: Options
) -> Any:
    w, r, b = (gates(v, _LSTM, n) for v in (w, r, b))
    b = np.concatenate([b, np.zeros(b.shape, b.dtype)], axis=1)
    return ops.lstm(x, w, r, b, lens, h, c, **options("sigmoid,tanh,tanh"))


def _gru(
    x: Array, h: Array, lens: Array | None, w: Array, r: Array, b: Array, n: int, options: Options,
    linear_before_reset: bool,
) -> Any:  # fmt: skip
    size = 4 * n if linear_before_reset else 3 * n
    need(b.shape[1] == size, f"the bias must have {size} numbers per direction, got {b.shape[1]}")
    inner = np.zeros((b.shape[0], 3 * n), b.dtype)
    if linear_before_reset:
        inner = np.concatenate([inner[:, : 2 * n], b[:, 3 * n :]], axis=1)
    b = np.concatenate([b[:, : 3 * n], inner], axis=1)
    return ops.gru(x, w, r, b, lens, h, linear_before_reset=linear_before_reset, **options("sigmoid,tanh"))


def _rnn(x: Array, h: Array, lens: Array | None, w: Array, r: Array, b: Array, n: int, options: Options) -> Any:
    b = np.concatenate([b, np.zeros(b.shape, b.dtype)], axis=1)
    return ops.rnn(x, w, r, b, lens, h, **options("tanh"))


def _batch_first(y: Array) -> Array:
    """Return outputs (T, D, B, H) as (B, D, T, H)."""
    return y.transpose(2, 1, 0, 3)


def _lstm_sequence(
    x: Array, h: Array, c: Array, lens: Array, w: Array, r: Array, b: Array,
    *, hidden_size: int, options: Options, outputs: int,
) -> Any:  # fmt: skip
    steps, h, c = (_swap_batch_and_time(v) for v in (x, h, c))
    y, last, cell = _lstm(steps, h, c, lengths(lens, x), w, r, b, hidden_size, options)
    return (_batch_first(y), _swap_batch_and_time(last), _swap_batch_and_time(cell))[:outputs]


def _lstm_cell(
    x: Array, h: Array, c: Array, w: Array, r: Array, b: Array, *, hidden_size: int, options: Options, outputs: int
) -> Any:
    _, last, cell = _lstm(x[None], h[None], c[None], None, w[None], r[None], b[None], hidden_size, options)
    return (last[0], cell[0])[:outputs]


def _sequence(operator: Function) -> Function:
    """Return the function of a layer whose only state is h, from one with x (T, B, I) and h (D, B, H)."""

    def run(
        x: Array, h: Array, lens: Array, w: Array, r: Array, b: Array,
        *, hidden_size: int, options: Options, outputs: int, **how: Any,
    ) -> Any:  # fmt: skip
        x_first, h_first = _swap_batch_and_time(x), _swap_batch_and_time(h)
        y, last = operator(x_first, h_first, lengths(lens, x), w, r, b, hidden_size, options, **how)
        return (_batch_first(y), _swap_batch_and_time(last))[:outputs]

    return run


def _cell(operator: Function) -> Function:
    """Return the function of a single step, from one of sequences."""

    def run(
        x: Array, h: Array, w: Array, r: Array, b: Array, *, hidden_size: int, options: Options, **how: Any
    ) -> Any:
        _, last = operator(x[None], h[None], None, w[None], r[None], b[None], hidden_size, options, **how)
        return last[0]

    return run


_LINEAR = attribute("bool", False)

operators(
    RecurrentOperation,
    SPECIFICATION,
    {
        "LSTMSequence": row("Compute a long short-term memory over sequences (B, T, I).", _lstm_sequence,
            "LSTMSequence-1 and LSTMSequence-5",
            "Inputs: x; initial states h and c (B, D, H); lengths (B,); w (D, 4 H, I), r (D, 4 H, H), b (D, 4 H), "
            "for the gates f, i, c, o. D is 2 for direction bidirectional, else 1. Outputs: all steps "
            "(B, D, T, H), the last h and c (B, D, H)."),
        "GRUSequence": row("Compute a gated recurrent unit over sequences (B, T, I).", _sequence(_gru),
            "GRUSequence-5",
            "Inputs: x; initial state h (B, D, H); lengths (B,); w (D, 3 H, I), r (D, 3 H, H), b (D, 3 H), or "
            "(D, 4 H) with linear_before_reset, for the gates z, r, h. Outputs: all steps (B, D, T, H), the "
            "last h (B, D, H).",
            linear_before_reset=_LINEAR),
        "RNNSequence": row("Compute h = f(x @ w^T + h @ r^T + b) over sequences (B, T, I).", _sequence(_rnn),
            "RNNSequence-5",
            "Inputs: x; initial state h (B, D, H); lengths (B,); w (D, H, I), r (D, H, H), b (D, H). Outputs: all "
            "steps (B, D, T, H), the last h (B, D, H)."),
        "LSTMCell": row("Compute one step of a long short-term memory.", _lstm_cell, "LSTMCell-4",
            "x (B, I), h and c (B, H), w (4 H, I), r (4 H, H), b (4 H,), for the gates f, i, c, o, to h and c "
            "(B, H)."),
        "GRUCell": row("Compute one step of a gated recurrent unit.", _cell(_gru), "GRUCell-3",
            "x (B, I), h (B, H), w (3 H, I), r (3 H, H), b (3 H,), or (4 H,) with linear_before_reset, to h "
            "(B, H).",
            linear_before_reset=_LINEAR),
        "RNNCell": row("Compute one step h = f(x @ w^T + h @ r^T + b).", _cell(_rnn), "RNNCell-0",
            "x (B, I), h (B, H), w (H, I), r (H, H), b (H,) to h (B, H)."),
    },
)  # fmt: skip
