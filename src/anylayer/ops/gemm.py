"""Matrix product with a bias."""

from __future__ import annotations

from typing import Any

from anylayer.errors import need
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def gemm(a: Any, b: Any, c: Any = None, *, trans_b: bool = False) -> Any:
    """a (M, K) times b (K, N), or b (N, K) with `trans_b`, plus c (N,): (M, N), ONNX Gemm-13.

    Weights that lie transposed are taken as they lie.
    Raises LayerError where the shapes do not fit.
    """
    _check(a, b, c, trans_b)
    y = a @ (b.T if trans_b else b)
    return y if c is None else y + c


def _check(a: Any, b: Any, c: Any, trans_b: bool) -> tuple[Any, int]:
    """Rows and columns of the result."""
    need(
        len(a.shape) == 2 and len(b.shape) == 2,
        f"gemm multiplies two matrices, got shapes {tuple(a.shape)} and {tuple(b.shape)}",
    )
    inner, columns = (b.shape[1], b.shape[0]) if trans_b else tuple(b.shape)
    need(a.shape[1] == inner, f"gemm needs {inner} columns, got an input of shape {tuple(a.shape)}")
    need(
        c is None or tuple(c.shape) == (columns,),
        f"gemm needs a bias of shape ({columns},), got {None if c is None else tuple(c.shape)}",
    )
    return a.shape[0], columns


@gemm.form
def _(a: Any, b: Any, c: Any = None, *, trans_b: bool = False) -> Any:
    shape = _check(a, b, c, trans_b)
    return record("Gemm", [a, b] if c is None else [a, b, c], shape, a.dtype, transB=1 if trans_b else None)
