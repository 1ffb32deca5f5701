"""Recurrent operators, over whole sequences, with states of zeros before each run, and for one step.

Where only weights are quantized, TFLite rounds the rows that they multiply. The state of a step is an input of the
operator, and its last outputs are the following state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need, need_shape
from anylayer.layers._table import operators, row
from anylayer.layers.tflite._base import ACTIVATION, SOURCE, TFLiteLayer, activate
from anylayer.layers.tflite._quantized import round_rows
from anylayer.network import Function, Steps

_EPSILON = np.float32(1e-8)
_NOTHING = [cast(Array, None)] * 4
_NAMES = {"TANH": "Tanh", "RELU": "Relu"}
_DIRECTIONS = ("forward", "reverse")
_FUNCTIONS: dict[str, Function] = {"TANH": np.tanh, "RELU": ops.relu}
_Parts = Sequence[Array]
"""Weights in the order of the file, None where the file has none."""


@dataclass(frozen=True, slots=True)
class _Rounding:
    """How TFLite rounds rows before quantized weights, and of integers, arguments of gates, gates, c and h."""

    rows: Function = lambda x: x
    argument: Function = lambda x: x
    gate: Function = lambda x: x
    cell: Function = lambda x: x
    hidden: Function = lambda x: x


def _in_16_bits(scale: float) -> Function:
    """Return the function that rounds to integers of 16 bits times the scale."""
    step = np.float32(scale)
    return lambda x: np.clip(np.rint(x / step), -(2**15), 2**15 - 1) * step


class _Recurrent(TFLiteLayer):
    asymmetric_quantize_inputs: bool = attribute("bool", False)

    @property
    def rounding(self) -> _Rounding | None:
        """How numbers are rounded, None where nothing is quantized."""
        inputs, outputs, _ = self.settings.get("steps", [[None], [None], []])
        if not any(inputs):
            return None
        if inputs[0] is None or self.type == "SVDF":
            rows = partial(round_rows, axes=-1, asymmetric=self.asymmetric_quantize_inputs)
            return _Rounding(rows if inputs[0] is None else lambda x: x)
        steps = [outputs[0], *self.settings.get("states", ())]
        parts = [*inputs[9:12], *inputs[16:18], *inputs[20:]]
        fits = self.type == "UNIDIRECTIONAL_SEQUENCE_LSTM" and len(steps) == 4 and all(steps) and not any(parts)
        rule = "only an LSTM over sequences without peepholes, projection and layer normalization"
        need(fits, f"{rule} may have a quantized input")
        *same, cell = [[*map(float, scale.reshape(-1)), *map(int, zero.reshape(-1))] for scale, zero, _ in steps]
        fits = same[0] == same[1] == same[2] and len(cell) == 2 and math.frexp(cell[0])[0] == 0.5 and not cell[1]
        need(fits, f"the scales and zero points of its output and states do not agree: {[*same, cell]}")
        scale, zero, _ = outputs[0]

        def at_steps(x: Array) -> Array:
            return ops.dequantize_linear(ops.quantize_linear(x, scale, zero), scale, zero)

        return _Rounding(lambda x: x, _in_16_bits(2**-12), _in_16_bits(2**-15), _in_16_bits(cell[0]), at_steps)


def _over_sequences(run: Function, *numbers: Sequence[int], auxiliary: int = 99) -> Function:
    """Return the function of an operator over sequences in one direction or in both. numbers: those of the weights
    of each direction, counted from the first input after x. auxiliary: the number of the first auxiliary input.
    """

    def function(
        x: Array, *parts: Array, time_major: bool, rounding: _Rounding | None, merge_outputs: bool = True,
        **how: object,
    ) -> Array | list[Array]:  # fmt: skip
        need(len(x.shape) == 3, f"the input must have 3 axes, got shape {tuple(x.shape)}")
        need(not any(p is not None for p in parts[auxiliary:]), "an auxiliary input is not supported")
        x = x if time_major else x.transpose(1, 0, 2)
        weights = [[parts[i] if i < len(parts) else None for i in some] for some in numbers]
        both = [run(x, w, w is not weights[0], rounding, **how) for w in weights]
        both = [y if time_major else y.transpose(1, 0, 2) for y in both]
        return np.concatenate(both, axis=-1) if merge_outputs else both

    return function


def _lstm(
    x: Array, parts: _Parts, back: bool, rounding: _Rounding | None, *, fused_activation_function: str,
    cell_clip: float, proj_clip: float, diagonal_recurrent_tensors: bool = False,
) -> Array:  # fmt: skip
    """Return the outputs (T, B, H) of an LSTM in one direction. parts: the weights in the order of the file."""
    need(not diagonal_recurrent_tensors, "diagonal recurrent weights are not supported")
    w, r, b, norms, peepholes = gates = _gates(parts)
    is_plain = parts[15] is None and rounding is None and not any(v is not None for v in norms)
    if is_plain and not 0 < cell_clip < x.shape[0]:
        order = (0, 3, 1, 2)  # ONNX has the gates i, o, f, c
        weights, again, bias = (np.concatenate([v[i] for i in order])[None] for v in (w, r, b))
        bias = np.concatenate([bias, np.zeros_like(bias)], axis=1)
        peep = None if peepholes[1] is None else np.concatenate([peepholes[i] for i in (0, 2, 1)])[None]
        names = ["Sigmoid", *[_NAMES[fused_activation_function]] * 2]
        size, direction = w[1].shape[0], _DIRECTIONS[back]
        return ops.lstm(
            x, weights, again, bias, peepholes=peep, hidden_size=size, direction=direction, activations=names
        )[0][:, 0]
    how = gates, parts[15:17], fused_activation_function, (cell_clip, proj_clip), rounding
    return _scan(lambda x, h, c: _lstm_step(x, h, c, *how), x, back, r[1].shape[1], w[1].shape[0])


def _scan(step: Function, x: Array, back: bool, *sizes: int) -> Array:
    """Return the first state after each step, where the states have these sizes and are zero before."""
    states, outputs = [np.zeros((x.shape[1], size), x.dtype) for size in sizes], []
    for t in range(x.shape[0])[:: -1 if back else 1]:
        states = step(x[t], *states)
        outputs.append(states[0])
    return np.stack(outputs[:: -1 if back else 1])


def _gates(parts: _Parts) -> tuple[list[Array], ...]:
    """Return the weights of the input, of the output, the biases, norms, and peepholes of the gates i, f, c, o."""
    w, r, b, norms = ([*parts[i : i + 4], *_NOTHING][:4] for i in (0, 4, 11, 17))
    peepholes = [*parts[8:11]]
    need(all(v is not None for v in (*w[1:], *r[1:], *b[1:])), "a weight of a gate is absent")
    need(all(v is None or v.dtype.kind == "f" for v in parts), "a bias has no scale")
    if w[0] is None:  # the input gate is 1 - f: its argument is that of f, negated
        w[0], r[0], b[0], peepholes[0] = (None if v[1] is None else -v[1] for v in (w, r, b, peepholes))
        norms[0] = norms[1]
    return w, r, b, norms, peepholes


def _lstm_step(
    x: Array, h: Array, c: Array, gates: Sequence[_Parts], projection: _Parts, activation: str,
    limits: tuple[float, float], rounding: _Rounding | None,
) -> tuple[Array, Array]:  # fmt: skip
    """Return h and c after a step of an LSTM."""
    w, r, b, norms, peepholes = gates
    rounded = rounding or _Rounding()
    rows = rounded.rows(x), rounded.rows(h)

    def gate(i: int, cell: Array | None, function: Function = ops.sigmoid) -> Array:
        y: Array = rows[0] @ w[i].T
        y = rounded.argument(y if norms[i] is not None else y + b[i]) + rounded.argument(rows[1] @ r[i].T)
        peep = None if i == 2 else peepholes[min(i, 2)]
        y = y if peep is None else y + peep * cell
        if norms[i] is not None:
            y = y - y.mean(axis=-1, keepdims=True)
            y = y / np.sqrt((y * y).mean(axis=-1, keepdims=True) + _EPSILON) * norms[i] + b[i]
        return rounded.gate(function(y))

    def clip(y: Array, limit: float) -> Array:
        return np.clip(y, -limit, limit) if limit > 0 else y

    function = _FUNCTIONS[activation]
    c = rounded.cell(rounded.cell(gate(1, c) * c) + rounded.cell(gate(0, c) * gate(2, None, function)))
    c = clip(c, limits[0])
    h = rounded.hidden(gate(3, c) * rounded.gate(function(c)))
    if projection[0] is not None:
        h = rounded.rows(h) @ projection[0].T
        h = clip(h if projection[1] is None else h + projection[1], limits[1])
    return h, c


def _one_lstm(
    x: Array, *parts: Array, kernel_type: int, fused_activation_function: str, cell_clip: float, proj_clip: float,
    rounding: _Rounding | None,
) -> list[Array]:  # fmt: skip
    if kernel_type == 0:
        need(len(parts) in (19, 23), f"it has {len(parts) + 1} inputs, expected 20 or 24")
        gates, (h, c), limits = _gates([*parts[:17], *parts[19:]]), parts[17:19], (cell_clip, proj_clip)
        h, c = _lstm_step(x, h, c, gates, parts[15:17], fused_activation_function, limits, rounding)
        return [h, h, c]
    need(len(parts) == 4 and fused_activation_function == "TANH", "its weights are not those of a basic kernel")
    h, w, b, c = parts
    both = np.concatenate([x, h], axis=-1)
    sums = both @ w.T + b
    i, j, f, o = np.split(sums, 4, axis=-1)
    c = ops.sigmoid(f) * c + ops.sigmoid(i) * np.tanh(j)
    return [ops.sigmoid(o) * np.tanh(c), c, both, sums]


def _rnn(
    x: Array, parts: _Parts, back: bool, rounding: _Rounding | None, *, fused_activation_function: str
) -> Array:
    w, r, b = parts
    need(w is not None and r is not None and b is not None, "a weight is absent")
    if rounding is None:
        bias = np.concatenate([b, np.zeros_like(b)])[None]
        size, direction, names = w.shape[0], _DIRECTIONS[back], [_NAMES[fused_activation_function]]
        y = ops.rnn(x, w[None], r[None], bias, hidden_size=size, direction=direction, activations=names)
        return y[0][:, 0]
    how = partial(_rnn_step, fused_activation_function=fused_activation_function, rounding=rounding)
    return _scan(lambda x, h: how(x, w, r, b, h)[:1], x, back, w.shape[0])


def _rnn_step(
    x: Array, w: Array, r: Array, b: Array, h: Array, *, fused_activation_function: str, rounding: _Rounding | None
) -> list[Array]:
    x, h = (x, h) if rounding is None else (rounding.rows(x), rounding.rows(h))
    h = _FUNCTIONS[fused_activation_function](x @ w.T + h @ r.T + b)
    return [h, h]


def _svdf(
    x: Array, features: Array, times: Array, bias: Array | None, state: Array, *, rank: int,
    fused_activation_function: str, rounding: _Rounding | None, input_steps: Steps | None,
) -> list[Array]:  # fmt: skip
    batch, (filters, memory) = x.shape[0], times.shape
    need(0 < rank <= filters and filters % rank == 0, f"rank={rank} does not divide {filters} filters")
    need_shape(state, (batch, filters * memory), "the state")
    column = (x if rounding is None else rounding.rows(x)) @ features.T
    rows = np.concatenate([state.reshape(batch, filters, memory)[..., 1:], column[..., None]], axis=-1)
    y = (rows * times).sum(axis=-1).reshape(batch, filters // rank, rank).sum(axis=-1)
    need(bias is None or bias.dtype == y.dtype, "the bias has no scale")
    y = y if bias is None else y + bias
    activation = "NONE" if input_steps else fused_activation_function  # as TFLite computes integers
    return [activate(y, activation), rows.reshape(batch, filters * memory)]


_ACTIVATION = {"fused_activation_function": attribute(Enum(*_NAMES), "TANH")}
_HOW = {"time_major": attribute("bool", False), **_ACTIVATION}
_BOTH = {**_HOW, "merge_outputs": attribute("bool", False)}
_LIMITS = {"cell_clip": attribute("float", 0.0), "proj_clip": attribute("float", 0.0)}


operators(
    _Recurrent,
    "The input and the output are (B, T, values), or (T, B, values) with time_major. The states are zero before\n"
    f"    each run.\n    {SOURCE}",
    {
        "UNIDIRECTIONAL_SEQUENCE_LSTM": row("Run an LSTM over sequences.",
            _over_sequences(_lstm, [*range(17), *range(19, 23)]), "lstm_eval",
            "The inputs decide on peepholes, projection, layer normalization and an input gate.",
            diagonal_recurrent_tensors=attribute("bool", False), **_HOW, **_LIMITS),
        "BIDIRECTIONAL_SEQUENCE_LSTM": row("Run two LSTMs over sequences, one of them backwards.",
            _over_sequences(_lstm, range(17), range(17, 34), auxiliary=38), "lstm_eval",
            "There are two outputs, or one with merge_outputs.",
            **_BOTH, **_LIMITS),
        "UNIDIRECTIONAL_SEQUENCE_RNN": row("Compute h = f(x w + h r + b) over sequences.",
            _over_sequences(_rnn, range(3)), "unidirectional_sequence_rnn", **_HOW),
        "BIDIRECTIONAL_SEQUENCE_RNN": row("Compute h = f(x w + h r + b) over sequences in both directions.",
            _over_sequences(_rnn, range(3), range(4, 7), auxiliary=8), "bidirectional_sequence_rnn",
            "There are two outputs, or one with merge_outputs.", **_BOTH),
    },
)  # fmt: skip
operators(
    _Recurrent,
    f"The input and the output are (B, values).\n    {SOURCE}",
    {
        "LSTM": row("Compute one step of an LSTM.", _one_lstm, "lstm_eval",
            "With kernel_type=1 the state is given by the network, not by variables.",
            kernel_type=attribute("int32", 0), **_ACTIVATION, **_LIMITS),
        "RNN": row("Compute h = f(x w + h r + b).", _rnn_step, "basic_rnn", **_ACTIVATION),
        "SVDF": row("Filter the features of the last inputs over time, and add `rank` of them.", _svdf, "svdf",
            "The state (B, filters * memory) has the last features of each filter, the oldest first.",
            rank=attribute("int32"), fused_activation_function=ACTIVATION),
    },
)  # fmt: skip
