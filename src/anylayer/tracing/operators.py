"""The operators of ndarray, each implemented by its ufunc."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.graph.place import refusal
from anylayer.network import Function
from anylayer.tracing.array import TracedArray

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "divmod": np.divmod, "pow": np.power,
    "matmul": np.matmul, "lshift": np.left_shift, "rshift": np.right_shift, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_COMPARE = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def _forward(ufunc: np.ufunc) -> Any:
    def operator(self: Any, other: Any) -> Any:
        if getattr(other, "__array_ufunc__", True) is None:
            return NotImplemented
        return ufunc(self, other)

    return operator


def _reflect(ufunc: np.ufunc) -> Any:
    def operator(self: Any, other: Any) -> Any:
        return ufunc(other, self)

    return operator


def _in_place(ufunc: np.ufunc, immutable: Callable[[Any], bool]) -> Function:
    def operator(self: Any, other: Any) -> Any:
        if immutable(self):
            return ufunc(self, other)
        return ufunc(self, other, out=(self,))

    return operator


def _single(ufunc: np.ufunc) -> Any:
    return lambda self: ufunc(self)


def _power(self: Any, other: Any, modulo: Any = None) -> Any:
    if modulo is not None:
        return NotImplemented
    if type(other) is int and other == 2:  # NumPy's operator, unlike np.power, calls np.square here
        if self.dtype.kind == "b" and not self.shape:
            raise refusal("** 2 of a bool is int64 or int8, for a scalar or an array; cast the bool first")
        return np.square(self)
    return np.power(self, other)


def install(cls: Any, immutable: Callable[[Any], bool]) -> None:
    """Add the operators of ndarray to a class that has __array_ufunc__.

    An in-place operator returns a new array if `immutable` is true of the array, as for NumPy scalars.
    """
    for name, ufunc in _BINARY.items():
        setattr(cls, f"__{name}__", _forward(ufunc))
        setattr(cls, f"__r{name}__", _reflect(ufunc))
        if name != "divmod":
            setattr(cls, f"__i{name}__", _in_place(ufunc, immutable))
    for name, ufunc in _COMPARE.items():
        setattr(cls, f"__{name}__", _forward(ufunc))
    for name, ufunc in _UNARY.items():
        setattr(cls, f"__{name}__", _single(ufunc))
    cls.__pow__ = _power
    cls.__hash__ = None


install(TracedArray, lambda x: bool(x._scalar))
