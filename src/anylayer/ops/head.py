"""The first rows, as many as the data says."""

from __future__ import annotations

from typing import Any

from anylayer.errors import need
from anylayer.ops._operator import operator


@operator
def head(x: Any, count: Any) -> Any:
    """The first `count` rows of axis 0 of `x`; `count` is a whole number () of at most `x.shape[0]`."""
    _check(x, count)
    return x[: int(count)]


def _check(x: Any, count: Any) -> None:
    need(len(x.shape) >= 1, "head needs an array with rows, got shape ()")
    shape = tuple(getattr(count, "shape", ()))
    need(shape == (), f"count must be one number of shape (), got shape {shape}")
