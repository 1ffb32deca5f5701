"""NumPy meanings of operators that compute: elementwise, reductions, normalizations and recurrent layers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import need
from anylayer.layer.arguments import integers
from anylayer.layers._arrays import affine, standardize_groups
from anylayer.layers.onnx._call import (
    SPELLED_OUT,
    NoMeaning,
    OpCall,
    has_rare_dtype,
    is_plain,
    meaning,
    meanings,
    of,
)
from anylayer.layers.onnx._record import reduce_over_unknown_axes
from anylayer.libraries.onnx import helper
from anylayer.network import Array, Function


def _fold(function: Callable[[Any, Any], Any]) -> Function:
    return lambda *inputs: functools.reduce(function, inputs)


meanings(
    {
        "Abs": np.abs,
        "Neg": np.negative,
        "Round": np.rint,
        "Relu": lambda x: np.maximum(x, x.dtype.type(0)),
        "Sigmoid": ops.sigmoid,
        "Softplus": ops.softplus,
        "Erf": ops.erf,
        "Reciprocal": lambda x: x.dtype.type(1) / x,
        "Softsign": lambda x: x / (x.dtype.type(1) + np.abs(x)),
        "Mish": lambda x: x * np.tanh(ops.softplus(x)),
        "HardSwish": lambda x: x * np.clip(x / x.dtype.type(6) + x.dtype.type(0.5), 0, 1).astype(x.dtype),
        "Add": np.add,
        "Sub": np.subtract,
        "Mul": np.multiply,
        "And": np.logical_and,
        "Or": np.logical_or,
        "Xor": np.logical_xor,
        "BitwiseAnd": np.bitwise_and,
        "BitwiseOr": np.bitwise_or,
        "BitwiseXor": np.bitwise_xor,
        "Equal": np.equal,
        "Less": np.less,
        "LessOrEqual": np.less_equal,
        "Greater": np.greater,
        "GreaterOrEqual": np.greater_equal,
    },
    replaces=has_rare_dtype,
)
meanings(
    {
        "Max": _fold(np.maximum),
        "Min": _fold(np.minimum),
        "Sum": _fold(np.add),
        "Mean": lambda *inputs: functools.reduce(np.add, inputs) / inputs[0].dtype.type(len(inputs)),
    },
    replaces=lambda call: len(call.inputs) == 1 or has_rare_dtype(call),
)
meanings({"Where": lambda condition, a, b: np.where(condition, a, b), "PRelu": ops.prelu})
meaning("Gelu")(of(ops.gelu, "approximate"))
meaning("LogSoftmax")(of(ops.log_softmax, "axis"))


@meaning("Div")
def _div(call: OpCall, a: Array, b: Array) -> Array:
    """Divide two inputs, with integers rounded towards zero."""
    if a.dtype.kind == "f":
        return a / b
    floor = a // b
    if a.dtype.kind == "u":
        return floor
    return (floor + ((floor < 0) & (floor * b != a))).astype(a.dtype)


def _has_other_remainder(call: OpCall) -> bool:
    """Return whether the remainder has the sign of the divisor, which ONNX has for integers only."""
    return not call["fmod"] if call.inputs[0].dtype.kind == "f" else has_rare_dtype(call)


meanings({"Mod": lambda a, b, *, fmod=0: np.fmod(a, b) if fmod else np.mod(a, b)}, replaces=_has_other_remainder)


def _pow(a: Any, b: Any) -> Any:
    if a.dtype == b.dtype:
        return np.power(a, b)
    return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


def _clip(x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    """Clip the input. If the bounds cross, the upper one is used."""
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _shrink(x: Any, *, bias: float, lambd: float) -> Any:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)).astype(x.dtype)


meanings({"Pow": _pow, "Clip": _clip, "Shrink": _shrink}, replaces=has_rare_dtype)


def _cast(x: Array, dtype: Any) -> Array:
    if not (is_plain(x.dtype) and is_plain(dtype)):
        raise NoMeaning
    if x.dtype.kind == "f" and dtype.kind in "iu" and dtype.itemsize < 4:
        return x.astype(np.int32).astype(dtype)
    return x.astype(dtype)


meanings(
    {
        "Cast": lambda x, *, to: _cast(x, np.dtype(helper.tensor_dtype_to_np_dtype(to))),
        "CastLike": lambda x, like: _cast(x, like.dtype),
        "Einsum": lambda *inputs, equation: np.asarray(np.einsum(equation, *inputs, optimize=True)),
        "TopK": lambda x, k, *, axis, largest: ops.top_k(
            x, int(np.asarray(k).reshape(())), axis=axis, largest=bool(largest)
        ),
    }
)


def _sum(x: Array, axes: Any, keep: bool) -> Any:
    return x.sum(axis=axes, keepdims=keep, dtype=x.dtype)


def _extreme(function: Function, empty_float: float) -> Function:
    def reduce(x: Array, axes: Any, keep: bool) -> Any:
        if 0 not in x.shape:
            return function(x, axis=axes, keepdims=keep)
        if x.dtype.kind == "f":
            initial: Any = empty_float
        elif x.dtype.kind == "b":
            initial = empty_float > 0
        else:
            info = np.iinfo(x.dtype)
            initial = info.max if empty_float > 0 else info.min
        return function(x, axis=axes, keepdims=keep, initial=initial)

    return reduce


def _itself(x: Any) -> Array:
    return x


_REDUCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any, bool], Any]]] = {
    "ReduceSum": (_itself, _sum),
    "ReduceProd": (_itself, lambda x, axes, keep: x.prod(axis=axes, keepdims=keep, dtype=x.dtype)),
    "ReduceMax": (_itself, _extreme(np.max, -np.inf)),
    "ReduceMin": (_itself, _extreme(np.min, np.inf)),
    "ReduceL1": (np.abs, _sum),
    "ReduceSumSquare": (lambda x: x * x, _sum),
}
"""The function of each element, and the reduction of its results."""


def _axes(call: OpCall, x: Array) -> tuple[int, ...] | None:
    """Return the axes to reduce, or None for no axes at all."""
    axes = call.input(1)
    if axes is None or not np.size(axes):
        return None if call["noop_with_empty_axes"] else tuple(range(len(x.shape)))
    return tuple(integers(axes, "axes"))


def _enter() -> None:
    for op, functions in _REDUCTIONS.items():

        def reduce(call: OpCall, x: Array, axes: Array | None = None, functions: Any = functions) -> Any:
            if not call.is_constant(1) and x.dtype.name not in ("uint32", "uint64"):  # engines lack these two
                return reduce_over_unknown_axes(call)
            where, (each, function) = _axes(call, x), functions
            return each(x) if where is None else function(each(x), where, bool(call["keepdims"]))

        meaning(op, replaces=has_rare_dtype)(reduce)


_enter()


@meaning("ReduceMean")
def _mean(call: OpCall, x: Array, axes: Array | None = None) -> Array:
    """Return the mean. The reference implementation sums float16 in float16."""
    where = _axes(call, x)
    if where is None or x.dtype.kind != "f":
        raise NoMeaning
    return x.mean(axis=where, keepdims=bool(call["keepdims"])).astype(x.dtype)


@meaning("LpNormalization", replaces=has_rare_dtype)
def _lp_normalization(call: OpCall, x: Array) -> Array:
    """Divide by the sum of absolute values (p=1) or the Euclidean length (p=2); 0 where that is 0."""
    p = call["p"]
    need(p in (1, 2), f"p must be 1 or 2, got {p}")
    total = (np.abs(x) if p == 1 else x * x).sum(axis=call["axis"], keepdims=True, dtype=x.dtype)
    norm = total if p == 1 else np.sqrt(total)
    return np.where(norm == 0, x.dtype.type(0), x / np.where(norm == 0, x.dtype.type(1), norm)).astype(x.dtype)


@meaning("MeanVarianceNormalization")
def _mean_variance_normalization(call: OpCall, x: Any) -> Any:
    where = tuple(call["axes"])
    centered = x - x.mean(axis=where, keepdims=True)
    deviation = np.sqrt((centered * centered).mean(axis=where, keepdims=True))
    return centered / (deviation + x.dtype.type(1e-9))


def _common_attributes(call: OpCall) -> dict[str, Any]:
    """Return the attributes that anylayer.ops takes too."""
    if call["activation_alpha"] or call["activation_beta"]:
        raise NoMeaning
    return {
        "hidden_size": call["hidden_size"] or call.inputs[2].shape[-1],
        "direction": call["direction"],
        "activations": _activations(call),
        "clip": call["clip"] or None,
    }


def _activations(call: OpCall) -> list[str] | None:
    """Return the activations for the directions there are. ONNX's default lists those of two directions."""
    names = list(call["activations"] or ())
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[call.op] * (2 if call["direction"] == "bidirectional" else 1)
    return names[:count] if names == ["Tanh", "Tanh"] else names or None


@meaning("LSTM")
def _lstm(call: OpCall, *inputs: Any) -> Any:
    return ops.lstm(*inputs, **_common_attributes(call), input_forget=bool(call["input_forget"]))


@meaning("GRU")
def _gru(call: OpCall, *inputs: Any) -> Any:
    return ops.gru(*inputs, **_common_attributes(call), linear_before_reset=bool(call["linear_before_reset"]))


@meaning("RNN")
def _rnn(call: OpCall, *inputs: Any) -> Any:
    return ops.rnn(*inputs, **_common_attributes(call))


@meaning("BatchNormalization")
def _batch_norm(call: OpCall, x: Array, scale: Array, bias: Array, mean: Array, var: Array) -> Array:
    if call["training_mode"]:
        raise NoMeaning
    if len(x.shape) < 2:
        raise NoMeaning
    return ops.batch_normalization(x, scale, bias, mean, var, epsilon=call["epsilon"]).astype(x.dtype)


@meaning("GroupNormalization")
def _group_norm(call: OpCall, x: Array, scale: Array, bias: Array) -> Array:
    """Normalize groups of channels. Scale and bias have one number per channel, as in operator set 21."""
    y = standardize_groups(x.astype(np.float32), call["num_groups"], call["epsilon"])
    return affine(y.astype(x.dtype), scale, bias)


@meaning("LinearAttention", recorded=True)
def _linear_attention(
    call: OpCall, query: Array, key: Array, value: Array, past: Any = None, decay: Any = None, beta: Any = None
) -> tuple[Array, Array]:
    """Update a state (N, heads, d_k, d_v) by each token, and multiply the token's query by it."""
    heads, queries, rule = call["kv_num_heads"], call["q_num_heads"], call["update_rule"]
    need(rule in ("linear", "gated", "delta", "gated_delta"), f"update_rule={rule!r} is not defined")
    need(min(heads, queries) > 0 == queries % heads, f"kv_num_heads={heads} must divide q_num_heads={queries}")
    for array, name, used in ((decay, "decay", "gated" in rule), (beta, "beta", "delta" in rule)):
        need((array is not None) == used, f"update_rule={rule!r} {'needs' if used else 'has no'} input {name}")

    n, length = query.shape[:2]
    tokens = all(
        x is None or (len(x.shape) == 3 and x.shape[1] == length) for x in (query, key, value, decay, beta)
    )
    need(tokens, f"query, key, value, decay and beta must be of shape (N, {length}, values)")

    def split(x: Any, parts: int) -> Any:
        return x.astype(np.float32).reshape(x.shape[0], x.shape[1], parts, -1)

    q, k, v = split(query, queries), split(key, heads), split(value, heads)
    if past is None:
        state = np.zeros((n, heads, k.shape[3], v.shape[3]), np.float32)
    else:
        state = past.astype(np.float32)
    factors = np.exp(split(decay, heads)) if decay is not None else None
    rates = split(beta, beta.shape[2]) if beta is not None else None
    scale = call["scale"] or 1 / math.sqrt(k.shape[3])
    outputs = []
    for t in range(length):
        added = v[:, t]
        if factors is not None:
            state = state * factors[:, t][..., None]
        if rates is not None:
            added = rates[:, t] * (added - (k[:, t][..., None] * state).sum(2))
        state = state + k[:, t][..., None] * added[:, :, None]
        read = np.repeat(state, queries // heads, axis=1)
        outputs.append((q[:, t][..., None] * read).sum(2) * np.float32(scale))
    result = np.stack(outputs, 1).reshape(n, length, -1).astype(query.dtype)
    return result, state.astype(query.dtype if past is None else past.dtype)


def _operands(call: OpCall) -> None:
    operands = call["equation"].partition("->")[0].count(",") + 1
    need(operands == len(call.inputs), f"equation '{call['equation']}' takes {operands} inputs")


SPELLED_OUT["Einsum"] = _operands
