"""NumPy meanings of elementwise operators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.onnx._call import NoMeaning, OpCall, is_plain, meaning
from anylayer.libraries.onnx import helper
from anylayer.network import Array

_UNARY: dict[str, Callable[[Any], Any]] = {
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
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
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
}
_MANY: dict[str, Callable[[Any, Any], Any]] = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}


def _enter() -> None:
    for op, function in _UNARY.items():
        meaning(op, traceable=True)(lambda call, x, function=function: function(x))
    for op, pair in _BINARY.items():
        meaning(op, traceable=True)(lambda call, a, b, pair=pair: pair(a, b))
    for op, pair in _MANY.items():
        meaning(op, traceable=True)(lambda call, *xs, pair=pair: functools.reduce(pair, xs))


_enter()


@meaning("Mean", traceable=True)
def _mean(call: OpCall, *inputs: Any) -> Any:
    return functools.reduce(np.add, inputs) / inputs[0].dtype.type(len(inputs))


@meaning("Div")
def _div(call: OpCall, a: Array, b: Array) -> Any:
    """Divide two inputs, with integers rounded towards zero."""
    if a.dtype.kind == "f":
        return a / b
    floor = a // b
    if a.dtype.kind == "u":
        return floor
    return (floor + ((floor < 0) & (floor * b != a))).astype(a.dtype)


@meaning("Mod", traceable=True)
def _mod(call: OpCall, a: Any, b: Any) -> Any:
    return np.fmod(a, b) if call["fmod"] else np.mod(a, b)


@meaning("Pow", traceable=True)
def _pow(call: OpCall, a: Any, b: Any) -> Any:
    if a.dtype == b.dtype:
        return np.power(a, b)
    return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


@meaning("Where")
def _where(call: OpCall, condition: Any, a: Any, b: Any) -> Any:
    return np.where(condition, a, b)


@meaning("Clip", traceable=True)
def _clip(call: OpCall, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    """Clip the input. If the bounds cross, the upper one is used."""
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


@meaning("PRelu")
def _prelu(call: OpCall, x: Array, slope: Array) -> Array:
    return ops.prelu(x, slope)


@meaning("Gelu")
def _gelu(call: OpCall, x: Array) -> Array:
    return ops.gelu(x, approximate=call["approximate"])


@meaning("Shrink", traceable=True)
def _shrink(call: OpCall, x: Any) -> Any:
    bias, lambd = call["bias"], call["lambd"]
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)).astype(x.dtype)


@meaning("Cast")
def _cast(call: OpCall, x: Array) -> Array:
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(call["to"]))
    return _cast_to(x, dtype)


@meaning("CastLike")
def _cast_like(call: OpCall, x: Any, like: Any) -> Any:
    return _cast_to(x, like.dtype)


def _cast_to(x: Array, dtype: Any) -> Array:
    if not (is_plain(x.dtype) and is_plain(dtype)):
        raise NoMeaning
    if x.dtype.kind == "f" and dtype.kind in "iu" and dtype.itemsize < 4:
        return x.astype(np.int32).astype(dtype)
    return x.astype(dtype)
