"""Which dtypes NumPy computes in, asked from NumPy itself; and which the engines compute in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from anylayer.graph.place import refusal
from anylayer.tracing.array import TracedArray

NATIVE = frozenset(map(np.dtype, ("f4", "f8", "i4", "i8")))
"""Arithmetic on these runs as it is on every engine; other dtypes go through one of them."""
BOOL, F4, I4, I8 = np.dtype("?"), np.dtype("f4"), np.dtype("i4"), np.dtype("i8")


@lru_cache(None)
def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which the engines do arithmetic on `dtype`: float16 in float32, other integers in int64 (a
    narrowing Cast wraps as NumPy does), booleans in int32."""
    if dtype in NATIVE:
        return dtype
    if dtype.kind == "b":
        return I4
    return F4 if dtype.kind == "f" else I8


def weak(x: Any) -> bool:
    """Whether `x` is a Python number, which takes the dtype of the array that it meets."""
    return type(x) in (int, float, complex)


def kind_of(x: Any) -> Any:
    """What resolve_dtypes and result_type want to know of an argument: its dtype, or a Python number's type."""
    return type(x) if weak(x) else x.dtype


def as_operand(x: Any) -> Any:
    """A rule's argument: Python numbers stay, traced arrays stay, everything else becomes a NumPy array."""
    return x if type(x) is TracedArray or weak(x) else np.asarray(x)


@lru_cache(None)
def _loop(ufunc: np.ufunc, kinds: tuple[Any, ...], signature: tuple[Any, ...] | None) -> tuple[np.dtype[Any], ...]:
    full = (*kinds, *[None] * ufunc.nout)
    found = ufunc.resolve_dtypes(full, signature=signature) if signature else ufunc.resolve_dtypes(full)
    return tuple(found)


def loop_dtypes(
    ufunc: np.ufunc, inputs: Sequence[Any], signature: tuple[Any, ...] | None = None
) -> tuple[np.dtype[Any], ...]:
    """The dtypes of the loop that NumPy chooses for these inputs: inputs', then outputs'."""
    kinds = tuple(map(kind_of, inputs))
    if all(weak(x) for x in inputs):
        kinds = tuple(np.asarray(x).dtype for x in inputs)
    found = _loop(ufunc, kinds, signature)
    for dtype in found:
        if dtype.kind not in "biuf":
            raise refusal(f"np.{ufunc.__name__} computes in {dtype.name} here, which the engines do not know")
    return found


def common_dtype(*inputs: Any) -> np.dtype[Any]:
    """np.result_type, Python numbers weak."""
    return np.result_type(*[0.0 if type(x) is float else 0 if type(x) is int else x.dtype for x in inputs])
