"""The dtypes in which NumPy computes, as NumPy itself reports them, and those in which the engines compute."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from anylayer.graph.place import refusal
from anylayer.graph.symbolic import Size, SizeDouble, SizeReal
from anylayer.network import DType
from anylayer.tracing.array import TracedArray
from anylayer.tracing.python_numbers import PythonNumber

NATIVE = frozenset(map(np.dtype, ("f4", "f8", "i4", "i8")))
"""Every engine computes in these dtypes. Other dtypes are cast to one of them."""
BOOL, F4, I4, I8 = np.dtype("?"), np.dtype("f4"), np.dtype("i4"), np.dtype("i8")


@lru_cache(None)
def compute_dtype(dtype: DType) -> DType:
    """Return the dtype in which the engines compute on `dtype`.

    That is `dtype` itself for float32, float64, int32 and int64; float32 for float16; int64 for other integers,
    where a narrowing Cast wraps as NumPy does; and int32 for booleans.
    """
    if dtype in NATIVE:
        return dtype
    if dtype.kind == "b":
        return I4
    return F4 if dtype.kind == "f" else I8


def weak(x: object) -> bool:
    """Return whether `x` is a Python number, which takes the dtype of the array that it is combined with."""
    return type(x) in (int, float, complex, Size, SizeReal, PythonNumber)


def kind_of(x: Any) -> Any:
    """Return the dtype of `x`, or the type of a Python number: what resolve_dtypes and result_type expect."""
    return python_type(x) if weak(x) else x.dtype


def dtype_kind(x: Any) -> str:
    """Return the kind of the dtype of an array or a number, such as "f"."""
    return (
        np.dtype(python_type(x)).kind
        if weak(x)
        else np.asarray(x).dtype.kind
        if not hasattr(x, "dtype")
        else x.dtype.kind
    )


def python_type(x: Any) -> Any:
    """Return the type of a Python number: int for a symbolic size."""
    return x.kind if type(x) is PythonNumber else _SYMBOLIC.get(type(x), type(x))


_SYMBOLIC: dict[Any, Any] = {Size: int, SizeReal: float}


def as_operand(x: Any) -> Any:
    """Return a rule's argument: numbers and traced arrays unchanged, anything else as a NumPy array."""
    return x if type(x) is SizeDouble or type(x) is TracedArray or weak(x) else np.asarray(x)


@lru_cache(None)
def _loop(ufunc: np.ufunc, kinds: tuple[Any, ...], signature: tuple[Any, ...] | None) -> tuple[DType, ...]:
    full = (*kinds, *[None] * ufunc.nout)
    dtypes = ufunc.resolve_dtypes(full, signature=signature) if signature else ufunc.resolve_dtypes(full)
    return tuple(dtypes)


def loop_dtypes(
    ufunc: np.ufunc, inputs: Sequence[Any], signature: tuple[Any, ...] | None = None
) -> tuple[DType, ...]:
    """Return the dtypes of the loop that NumPy selects for these inputs: those of the inputs, then of the outputs.

    Raises TraceError for a dtype that the engines do not support.
    """
    kinds = tuple(map(kind_of, inputs))
    if all(weak(x) for x in inputs):
        kinds = tuple(np.asarray(python_type(x)()).dtype for x in inputs)
    dtypes = _loop(ufunc, kinds, signature)
    for dtype in dtypes:
        if dtype.kind not in "biuf":
            raise refusal(
                f"np.{ufunc.__name__} computes in {dtype.name} here, which the engines do not support; cast the "
                "inputs first"
            )
    return dtypes


def common_dtype(*inputs: Any) -> DType:
    """Return np.result_type of the inputs, where Python numbers take the dtype of the arrays."""
    return np.result_type(*[python_type(x)() if weak(x) else x.dtype for x in inputs])
