"""Matrix product with a bias."""

from __future__ import annotations

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._spatial import shape_of
from anylayer.tracing import record


@operator
def gemm(a: Array, b: Array, c: Array | None = None, *, trans_b: bool = False) -> Array:
    """Return a (M, K) @ b (K, N) + c (N,), of shape (M, N) (ONNX Gemm-13).

    With `trans_b`, `b` has the shape (N, K), so that transposed weights need no copy. `c` may be None.
    Raises LayerError if the shapes do not fit.
    """
    _check(a, b, c, trans_b)
    y = a @ (b.T if trans_b else b)
    return y if c is None else y + c


def _check(a: Array, b: Array, c: Array | None, trans_b: bool) -> tuple[int, int]:
    """Return the shape (M, N) of the result."""
    need(
        len(a.shape) == 2 and len(b.shape) == 2,
        f"gemm multiplies two matrices, got shapes {tuple(a.shape)} and {tuple(b.shape)}",
    )
    inner, columns = (b.shape[1], b.shape[0]) if trans_b else tuple(b.shape)
    need(a.shape[1] == inner, f"gemm needs {inner} columns, got an input of shape {tuple(a.shape)}")
    need(c is None or tuple(c.shape) == (columns,), f"gemm needs a bias of shape ({columns},), got {shape_of(c)}")
    return a.shape[0], columns


@gemm.form
def _(a: Array, b: Array, c: Array | None = None, *, trans_b: bool = False) -> Array:
    shape = _check(a, b, c, trans_b)
    return record("Gemm", [a, b] if c is None else [a, b, c], shape, a.dtype, transB=1 if trans_b else None)
