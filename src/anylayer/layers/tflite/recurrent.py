"""Recurrent operators over whole sequences. Their states, variables of the file, are zero before each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Layer, attribute, need
from anylayer.layers._table import operators, row
from anylayer.layers.tflite._base import SOURCE, TFLiteLayer

_EPSILON = np.float32(1e-8)
_NOTHING = [cast(Array, None)] * 4
_NAMES = {"TANH": "Tanh", "RELU": "Relu"}
_Parts = Sequence[Array]
"""Weights in the order of the file, None where the file has none."""


def _sequence(x: Array, time_major: bool) -> Array:
    """Return sequences as (T, B, values), or results of this form as the file has them."""
    need(len(x.shape) == 3, f"the input must have 3 axes, got shape {tuple(x.shape)}")
    return x if time_major else x.transpose(1, 0, 2)


def _outputs_of(parts: list[Array], time_major: bool, merge_outputs: bool) -> Array | list[Array]:
    both = [_sequence(y, time_major) for y in parts]
    return np.concatenate(both, axis=-1) if merge_outputs else both


def _lstm(x: Array, parts: _Parts, activation: str, *, cell_clip: float, proj_clip: float, back: bool) -> Array:
    """Return the outputs (T, B, H) of an LSTM in one direction. parts: the weights in the order of the file."""
    w, r, b, norms = ([*parts[i : i + 4]] for i in (0, 4, 11, 17))
    peepholes, projection = [*parts[8:11]], parts[15]
    need(all(v is not None for v in (*w[1:], *r[1:], *b[1:])), "a weight of a gate is absent")
    if w[0] is None:  # the input gate is 1 - f: its argument is that of f, negated
        w[0], r[0], b[0], peepholes[0] = (None if v[1] is None else -v[1] for v in (w, r, b, peepholes))
        norms[0] = norms[1]
    if projection is None and not any(v is not None for v in norms) and not 0 < cell_clip < x.shape[0]:
        order = (0, 3, 1, 2)  # ONNX has the gates i, o, f, c
        weights, again, bias = (np.concatenate([v[i] for i in order])[None] for v in (w, r, b))
        bias = np.concatenate([bias, np.zeros_like(bias)], axis=1)
        peep = None if peepholes[1] is None else np.concatenate([peepholes[i] for i in (0, 2, 1)])[None]
        names, size = ["Sigmoid", _NAMES[activation], _NAMES[activation]], w[1].shape[0]
        direction = "reverse" if back else "forward"
        how = {"hidden_size": size, "direction": direction, "activations": names}
        y: Array = ops.lstm(x, weights, again, bias, peepholes=peep, **how)[0][:, 0]
        return y
    return _lstm_with_clip(x, (w, r, b, norms, peepholes), parts[15:17], activation, (cell_clip, proj_clip), back)


def _lstm_with_clip(
    x: Array, parts: Sequence[_Parts], projection: _Parts, activation: str, limits: tuple[float, float], back: bool
) -> Array:
    """Return what `_lstm` does, step by step, for what the operator LSTM of ONNX does not have."""
    w, r, b, norms, peepholes = parts
    function = np.tanh if activation == "TANH" else ops.relu
    h = np.zeros((x.shape[1], r[1].shape[1]), x.dtype)
    c = np.zeros((x.shape[1], w[1].shape[0]), x.dtype)

    def gate(i: int, x: Array, cell: Array | None) -> Array:
        y: Array = x @ w[i].T + h @ r[i].T
        peep = None if i == 2 else peepholes[min(i, 2)]
        y = y if peep is None else y + peep * cell
        if norms[i] is not None:
            y = y - y.mean(axis=-1, keepdims=True)
            y = y / np.sqrt((y * y).mean(axis=-1, keepdims=True) + _EPSILON) * norms[i]
        return y + b[i]

    def clip(y: Array, limit: float) -> Array:
        return np.clip(y, -limit, limit) if limit > 0 else y

    outputs = []
    for t in range(x.shape[0])[:: -1 if back else 1]:
        forget = ops.sigmoid(gate(1, x[t], c))
        c = clip(forget * c + ops.sigmoid(gate(0, x[t], c)) * function(gate(2, x[t], None)), limits[0])
        h = ops.sigmoid(gate(3, x[t], c)) * function(c)
        if projection[0] is not None:
            h = h @ projection[0].T
            h = clip(h if projection[1] is None else h + projection[1], limits[1])
        outputs.append(h)
    return np.stack(outputs[:: -1 if back else 1])


def _unidirectional_lstm(
    x: Array, *parts: Array, time_major: bool, fused_activation_function: str,
    diagonal_recurrent_tensors: bool, **limits: float,
) -> Array:  # fmt: skip
    need(not diagonal_recurrent_tensors, "diagonal recurrent weights are not supported")
    padded = [*parts[:17], *parts[19:], *_NOTHING]
    return _sequence(
        _lstm(_sequence(x, time_major), padded, fused_activation_function, back=False, **limits), time_major
    )


def _bidirectional_lstm(
    x: Array, *parts: Array, time_major: bool, merge_outputs: bool, fused_activation_function: str,
    **limits: float,
) -> Array | list[Array]:  # fmt: skip
    need(not any(p is not None for p in parts[38:]), "an auxiliary input is not supported")
    x = _sequence(x, time_major)
    both = [
        _lstm(x, [*parts[i : i + 17], *_NOTHING], fused_activation_function, back=i > 0, **limits) for i in (0, 17)
    ]
    return _outputs_of(both, time_major, merge_outputs)


def _rnn(x: Array, parts: _Parts, activation: str, direction: str = "forward") -> Array:
    w, r, b = parts[:3]
    need(w is not None and r is not None and b is not None, "a weight is absent")
    bias = np.concatenate([b, np.zeros_like(b)])[None]
    names, size = [_NAMES[activation]], w.shape[0]
    y = ops.rnn(x, w[None], r[None], bias, hidden_size=size, direction=direction, activations=names)
    return y[0][:, 0]


def _unidirectional_rnn(x: Array, *parts: Array, time_major: bool, fused_activation_function: str) -> Array:
    return _sequence(_rnn(_sequence(x, time_major), parts, fused_activation_function), time_major)


def _bidirectional_rnn(
    x: Array, *parts: Array, time_major: bool, merge_outputs: bool, fused_activation_function: str
) -> Array | list[Array]:
    need(not any(p is not None for p in parts[8:]), "an auxiliary input is not supported")
    x = _sequence(x, time_major)
    both = [
        _rnn(x, parts[i : i + 3], fused_activation_function, how) for i, how in ((0, "forward"), (4, "reverse"))
    ]
    return _outputs_of(both, time_major, merge_outputs)


_HOW = {"time_major": attribute("bool", False), "fused_activation_function": attribute(Enum(*_NAMES), "TANH")}
_BOTH = {**_HOW, "merge_outputs": attribute("bool", False)}
_LIMITS = {"cell_clip": attribute("float", 0.0), "proj_clip": attribute("float", 0.0)}


def _need_reals(self: Layer, *inputs: Array) -> None:
    need("steps" not in self.settings, "quantized recurrent operators are not supported")


operators(
    TFLiteLayer,
    "The input and the output are (B, T, values), or (T, B, values) with time_major. The states are zero before\n"
    f"    each run.\n    {SOURCE}",
    {
        "UNIDIRECTIONAL_SEQUENCE_LSTM": row("Run an LSTM over sequences.", _unidirectional_lstm, "lstm_eval",
            "The inputs decide on peepholes, projection, layer normalization and an input gate.",
            diagonal_recurrent_tensors=attribute("bool", False), **_HOW, **_LIMITS),
        "BIDIRECTIONAL_SEQUENCE_LSTM": row("Run two LSTMs over sequences, one of them backwards.",
            _bidirectional_lstm, "lstm_eval", "There are two outputs, or one with merge_outputs.",
            **_BOTH, **_LIMITS),
        "UNIDIRECTIONAL_SEQUENCE_RNN": row("Compute h = f(x w + h r + b) over sequences.", _unidirectional_rnn,
            "unidirectional_sequence_rnn", **_HOW),
        "BIDIRECTIONAL_SEQUENCE_RNN": row("Compute h = f(x w + h r + b) over sequences in both directions.",
            _bidirectional_rnn, "bidirectional_sequence_rnn",
            "There are two outputs, or one with merge_outputs.", **_BOTH),
    },
    check=_need_reals,
)  # fmt: skip
