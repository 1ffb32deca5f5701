"""Traced's operators: each is the ufunc that ndarray's operator is."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.tracing.array import Traced
from anylayer.tracing.dispatch import call_ufunc

_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "divmod": np.divmod,
    "pow": np.power,
    "matmul": np.matmul,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
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
    def operator(self: Traced, other: Any) -> Any:
        if getattr(other, "__array_ufunc__", True) is None:
            return NotImplemented
        return call_ufunc(ufunc, "__call__", (self, other), {})

    return operator


def _reflected(ufunc: np.ufunc) -> Any:
    def operator(self: Traced, other: Any) -> Any:
        return call_ufunc(ufunc, "__call__", (other, self), {})

    return operator


def _in_place(ufunc: np.ufunc) -> Any:
    def operator(self: Traced, other: Any) -> Any:
        if self._scalar:
            return call_ufunc(ufunc, "__call__", (self, other), {})
        return call_ufunc(ufunc, "__call__", (self, other), {"out": (self,)})

    return operator


def _single(ufunc: np.ufunc) -> Any:
    return lambda self: call_ufunc(ufunc, "__call__", (self,), {})


def _power(self: Traced, other: Any, modulo: Any = None) -> Any:
    if modulo is not None:
        return NotImplemented
    if type(other) is int and other == 2:  # which NumPy's operator, unlike np.power, takes for np.square
        return call_ufunc(np.square, "__call__", (self,), {})
    return call_ufunc(np.power, "__call__", (self, other), {})


for _name, _ufunc in _BINARY.items():
    setattr(Traced, f"__{_name}__", _forward(_ufunc))
    setattr(Traced, f"__r{_name}__", _reflected(_ufunc))
    if _name != "divmod":
        setattr(Traced, f"__i{_name}__", _in_place(_ufunc))
for _name, _ufunc in _COMPARE.items():
    setattr(Traced, f"__{_name}__", _forward(_ufunc))
for _name, _ufunc in _UNARY.items():
    setattr(Traced, f"__{_name}__", _single(_ufunc))
Traced.__pow__ = _power  # type: ignore[attr-defined]
Traced.__hash__ = None  # type: ignore[assignment]
