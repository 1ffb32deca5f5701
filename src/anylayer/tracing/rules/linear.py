"""Matrix products, einsum, norms, and the inverse of small matrices."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from anylayer.graph.place import refusal
from anylayer.graph.sizes import broadcast, numpy_axes, size_of
from anylayer.graph.symbolic import is_empty
from anylayer.network import Array, DType
from anylayer.tracing import rules
from anylayer.tracing.dispatch import implements, ufunc_rule
from anylayer.tracing.dtypes import BOOL, I4, common_dtype
from anylayer.tracing.primitives import AxisArg, cast, is_constant, reduce, reshape, to_native, transpose
from anylayer.tracing.record import record, running_graph
from anylayer.tracing.rules.concatenation import array_like


@ufunc_rule(np.matmul)
def matmul(a: Array, b: Array) -> Array:
    """Record np.matmul of two arrays in the dtype of NumPy's loop."""
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul: Input operand does not have enough dimensions")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise ValueError(
            f"matmul: Input operand 1 has a mismatch in its core dimension 0 (size {inner} is different from "
            f"{a.shape[-1]})"
        )
    shape = (
        *broadcast(a.shape[:-2], b.shape[:-2]),
        *(a.shape[-2:-1] if a.ndim > 1 else ()),
        *(b.shape[-1:] if b.ndim > 1 else ()),
    )
    if is_empty([inner]):
        return np.zeros(shape, a.dtype)
    if a.dtype == BOOL:
        return cast(record("MatMul", [cast(a, I4), cast(b, I4)], shape, I4), BOOL)
    dtype = a.dtype
    return cast(record("MatMul", [to_native(a), to_native(b)], shape, to_native(a).dtype), dtype)


ufunc_rule(getattr(np, "vecdot", None))(lambda a, b: (a * b).sum(-1, dtype=a.dtype))
ufunc_rule(getattr(np, "matvec", None))(lambda a, b: matmul(a, b[..., None])[..., 0])
ufunc_rule(getattr(np, "vecmat", None))(lambda a, b: matmul(a[..., None, :], b)[..., 0, :])


def _common_pair(a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    """Return both arrays in their common dtype."""
    a, b = array_like(a), array_like(b)
    dtype = common_dtype(a, b)
    return cast(a, dtype), cast(b, dtype)


@implements(np.dot)
def dot(a: Array, b: Array) -> Any:
    if any(getattr(x, "dtype", BOOL).kind == "c" for x in (a, b)):
        return rules.spectral.product_of_complex(np.dot, a, b)
    a, b = _common_pair(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    if b.ndim <= 2:
        return matmul(a, b)
    return tensordot(a, b, ((a.ndim - 1,), (b.ndim - 2,)))


@implements(np.vdot)
def vdot(a: Array, b: Array, /) -> Any:
    if any(getattr(x, "dtype", BOOL).kind == "c" for x in (a, b)):
        return rules.spectral.product_of_complex(np.vdot, np.conjugate(a), b)
    a, b = _common_pair(a, b)
    return matmul(a.reshape(-1), b.reshape(-1))


@implements(np.inner)
def inner(a: Array, b: Array, /) -> Any:
    a, b = _common_pair(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return tensordot(a, b, ((a.ndim - 1,), (b.ndim - 1,)))


@implements(np.outer, np.linalg.outer)
def outer(a: ArrayLike, b: ArrayLike) -> Array:
    a, b = array_like(a), array_like(b)
    return a.reshape(-1, 1) * b.reshape(1, -1)


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Array, b: Array, axes: int | Sequence[Any] = 2) -> Any:
    a, b = _common_pair(a, b)
    if isinstance(axes, (int, np.integer)):
        left: Any = range(a.ndim - int(axes), a.ndim)
        right: Any = range(int(axes))
    else:
        left, right = axes
    first = numpy_axes(tuple(left) if np.ndim(left) else left, a.ndim)
    second = numpy_axes(tuple(right) if np.ndim(right) else right, b.ndim)
    if [a.shape[i] for i in first] != [b.shape[i] for i in second]:
        raise ValueError("shape-mismatch for sum")
    rows = [i for i in range(a.ndim) if i not in first]
    columns = [i for i in range(b.ndim) if i not in second]
    if not rows and not columns:
        return (transpose(a, first) * transpose(b, second)).sum(dtype=a.dtype)
    depth = size_of([a.shape[i] for i in first])
    shape = (*[a.shape[i] for i in rows], *[b.shape[i] for i in columns])
    m = reshape(transpose(a, [*rows, *first]), (size_of(shape[: len(rows)]), depth))
    n = reshape(transpose(b, [*second, *columns]), (depth, size_of(shape[len(rows) :])))
    return reshape(matmul(m, n), shape)


@implements(np.kron)
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    a, b = array_like(a), array_like(b)
    rank = max(a.ndim, b.ndim)
    a, b = (x.reshape([1] * (rank - x.ndim) + list(x.shape)) for x in (a, b))
    wide = a.reshape([d for n in a.shape for d in (n, 1)]) * b.reshape([d for n in b.shape for d in (1, n)])
    return wide.reshape([m * n for m, n in zip(a.shape, b.shape)])


@implements(np.cross)
def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(array_like(a), axisa, -1), np.moveaxis(array_like(b), axisb, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise refusal("np.cross of vectors without three elements cannot be recorded; write out the components")
    x, y, z = (a[..., i] for i in range(3))
    u, v, w = (b[..., i] for i in range(3))
    return np.stack([y * w - z * v, z * u - x * w, x * v - y * u], axisc)


implements(np.linalg.cross)(lambda x1, x2, /, *, axis=-1: cross(x1, x2, axis=axis))
implements(np.linalg.matmul)(lambda x1, x2, /: np.matmul(x1, x2))


@implements(np.linalg.vecdot)
def linalg_vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Any:
    return np.vecdot(np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1))


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Array]) -> Array:
    result = array_like(arrays[0])
    for a in arrays[1:]:
        result = dot(result, a)
    return result


@implements(np.linalg.matrix_power)
def matrix_power(a: Array, n: int) -> Array:
    if n < 1:
        raise refusal("np.linalg.matrix_power is recorded with powers of at least 1 only")
    result = a
    for _ in range(n - 1):
        result = np.matmul(result, a)
    return result


# --------------------------------------------------- determinants and inverses


def _adjugate(a: Array, name: str) -> tuple[Array, Array]:
    """Return the adjugates and the determinants of matrices of 2 or 3 rows. NumPy's results have these dtypes.

    float32 is computed in float64: the cancellation in a determinant would cost the digits of badly conditioned
    matrices otherwise.
    """
    if a.dtype == np.float16:
        raise TypeError("array type float16 is unsupported in linalg")
    n = a.shape[-1] if a.ndim > 1 else 0
    if n not in (2, 3) or a.shape[-2] != n:
        raise refusal(f"np.linalg.{name} is recorded for matrices of 2 or 3 rows and columns, got shape {a.shape}")
    running_graph().note(
        f"np.linalg.{name} is a closed form here: a singular matrix gives inf or NaN instead of LinAlgError, and "
        "badly conditioned float64 matrices lose up to twice the digits of NumPy's result"
    )
    a = cast(a, np.float64)
    e = [[a[..., i, j] for j in range(n)] for i in range(n)]
    if n == 2:
        rows = [[e[1][1], -e[0][1]], [-e[1][0], e[0][0]]]
    else:
        rows = [[_minor(e, j, i) for j in range(3)] for i in range(3)]
    adjugate = np.stack([np.stack(row, -1) for row in rows], -2)
    return adjugate, np.sum(adjugate[..., 0, :] * a[..., :, 0], -1)


def _minor(e: Sequence[Sequence[Array]], i: int, j: int) -> Array:
    """Return the cofactor of a matrix of 3 rows at row `i` and column `j`."""
    (up, down), (left, right) = ((k - 2, k - 1) for k in (i, j))
    minor: Array = e[up][left] * e[down][right] - e[up][right] * e[down][left]
    return minor


def _inexact(*arrays: Array) -> DType:
    """Return the dtype in which np.linalg computes."""
    dtype = np.result_type(*(x.dtype for x in arrays))
    return dtype if dtype == np.float32 else np.dtype(np.float64)


@implements(np.linalg.det)
def det(a: Array) -> Array:
    return cast(_adjugate(a, "det")[1], _inexact(a))


@implements(np.linalg.inv)
def inv(a: Array) -> Array:
    adjugate, determinant = _adjugate(a, "inv")
    return cast(adjugate / determinant[..., None, None], _inexact(a))


@implements(np.linalg.solve)
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    left, right = array_like(a), array_like(b)
    adjugate, determinant = _adjugate(left, "solve")
    columns = cast(right[:, None] if right.ndim == 1 else right, np.float64)
    x = np.matmul(adjugate, columns) / determinant[..., None, None]
    return cast(x[..., 0] if right.ndim == 1 else x, _inexact(left, right))


# ---------------------------------------------------------------------- norms


@implements(np.linalg.norm)
def norm(x: Array, ord: Any = None, axis: AxisArg = None, keepdims: bool = False) -> Any:
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    if axis is None and ord is None:
        flat = np.sqrt((x * x).sum())
        return flat.reshape((1,) * x.ndim) if keepdims else flat
    axes = numpy_axes(axis, x.ndim)
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, "fro" if ord is None else ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


def _vector_norm(x: Array, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if order == 2:
        return np.sqrt((x * x).sum(axes, keepdims=keepdims))
    if order == 1:
        return np.abs(x).sum(axes, keepdims=keepdims)
    if order == np.inf:
        return np.abs(x).max(axes, keepdims=keepdims)
    if order == -np.inf:
        return np.abs(x).min(axes, keepdims=keepdims)
    if order == 0:
        return (x != 0).astype(x.dtype).sum(axes, keepdims=keepdims)
    if isinstance(order, (int, float)):
        return np.power(np.power(np.abs(x), order).sum(axes, keepdims=keepdims), 1 / order)
    raise ValueError(f"Invalid norm order '{order}' for vectors")


def _matrix_norm(x: Array, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if order == "fro":
        return np.sqrt((x * x).sum(axes, keepdims=keepdims))
    rows, columns = axes
    if order in (1, -1, np.inf, -np.inf):
        inner, other = (rows, columns) if abs(order) == 1 else (columns, rows)
        sums = np.abs(x).sum(inner, keepdims=True)
        result = sums.max(other, keepdims=True) if order > 0 else sums.min(other, keepdims=True)
        return result if keepdims else np.squeeze(result, axes)
    raise refusal(
        f"np.linalg.norm of matrices with ord={order!r} cannot be expressed in ONNX operators; use 'fro', 1 or inf"
    )


@implements(np.linalg.vector_norm)
def vector_norm(x: Array, /, *, axis: AxisArg = None, keepdims: bool = False, ord: Any = 2) -> Any:
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    return _vector_norm(x, ord, numpy_axes(axis, x.ndim), keepdims)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    return _matrix_norm(x, ord, (x.ndim - 2, x.ndim - 1), keepdims)


# --------------------------------------------------------------------- einsum


@implements(np.einsum)
def einsum(*operands: Any, optimize: object = False, dtype: DTypeLike | None = None, **kwargs: Any) -> Array:
    """Record einsum as products of two operands at a time, from left to right."""
    terms, result, arrays = _einsum_terms(operands)
    common = common_dtype(*arrays) if dtype is None else np.dtype(dtype)
    pairs = [_diagonals(cast(a, common), t) for a, t in zip(arrays, terms)]
    while len(pairs) > 1:
        (a, left), (b, right), *rest = pairs
        needed = {label for _, t in rest for label in t} | set(result)
        pairs = [_product(a, left, b, right, needed), *rest]
    x, labels = pairs[0]
    x, labels = _sum_except(x, labels, set(result))
    x = transpose(x, [labels.index(label) for label in result])
    return cast(x, common)


def _einsum_terms(operands: Sequence[Any]) -> tuple[list[str], str, list[Array]]:
    """Return the labels of each operand, the labels of the result, and the operands.

    "..." is replaced by unused letters.
    """
    if not isinstance(operands[0], str):
        operands = _with_letters(operands)
    text = operands[0].replace(" ", "")
    arrays = [array_like(x) for x in operands[1:]]
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(arrays):
        raise ValueError("more operands provided to einstein sum function than specified in the subscripts string")
    free = [c for c in string.ascii_letters if c not in text]
    wide = max((a.ndim - len(t.replace("...", "")) for a, t in zip(arrays, terms) if "..." in t), default=0)
    dots = "".join(free[:wide])
    spelled = []
    for a, t in zip(arrays, terms):
        n = a.ndim - len(t.replace("...", ""))
        spelled.append(t.replace("...", dots[len(dots) - n :] if n else ""))
        if len(spelled[-1]) != a.ndim:
            raise ValueError("einstein sum subscripts string does not fit the number of dimensions")
    if arrow:
        return spelled, right.replace("...", dots), arrays
    counted = "".join(t.replace("...", "") for t in terms)
    return spelled, dots + "".join(sorted(c for c in set(counted) if counted.count(c) == 1)), arrays


def _with_letters(operands: Sequence[Any]) -> list[Any]:
    """Return the operands of einsum(a, [0, 1], b, [1, 2], [0, 2]) with the axes as letters."""

    def letters(axes: Sequence[Any]) -> str:
        return "".join("..." if a is Ellipsis else string.ascii_letters[a] for a in axes)

    count = len(operands) // 2
    text = ",".join(letters(operands[2 * i + 1]) for i in range(count))
    if len(operands) % 2:
        text += "->" + letters(operands[-1])
    return [text, *[operands[2 * i] for i in range(count)]]


def _diagonals(x: Array, labels: str) -> tuple[Array, str]:
    """Return `x` with one axis for each label that the operand has several times, and the new labels."""
    for label in labels:
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = np.diagonal(x, 0, i, j)
            labels = labels.replace(label, "", 2) if labels.count(label) == 2 else _without(labels, (i, j))
            labels += label
    return x, labels


def _without(labels: str, places: Sequence[int]) -> str:
    return "".join(c for i, c in enumerate(labels) if i not in places)


def _sum_except(x: Array, labels: str, needed: set[str]) -> tuple[Array, str]:
    """Sum over the labels that are not in `needed`. Return the result and its labels."""
    gone = [i for i, c in enumerate(labels) if c not in needed]
    if gone:
        if is_constant(x):
            total: Any = x.sum(tuple(gone))
        else:
            total = x.any(tuple(gone)) if x.dtype == BOOL else reduce("ReduceSum", to_native(x), gone, False)
        x = cast(total, x.dtype)
    return x, _without(labels, gone)


def _product(a: Array, left: str, b: Array, right: str, needed: set[str]) -> tuple[Array, str]:
    """Multiply two operands, and sum over the labels that are not in `needed`.

    Return the result and its labels.
    """
    a, left = _sum_except(a, left, needed | set(right))
    b, right = _sum_except(b, right, needed | set(left))
    sizes = dict(zip(left, a.shape))
    for c, d in zip(right, b.shape):
        if sizes.setdefault(c, d) != d:
            if 1 not in (sizes[c], d):
                raise ValueError(f"operands could not be broadcast together: label '{c}' is {sizes[c]} and {d}")
            sizes[c] = max(sizes[c], d)
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in needed]
    summed = [c for c in shared if c not in needed]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    flat = any(d != sizes[c] for x, t in ((a, left), (b, right)) for c, d in zip(t, x.shape))
    if not summed or flat:
        order = [*batch, *summed, *rows, *columns]
        wide = _spread(a, left, order) * _spread(b, right, order)
        return _sum_except(wide, "".join(order), needed)
    x = transpose(a, [left.index(c) for c in (*batch, *rows, *summed)])
    y = transpose(b, [right.index(c) for c in (*batch, *summed, *columns)])
    lead = tuple(sizes[c] for c in batch)
    m, k, n = (size_of([sizes[c] for c in group]) for group in (rows, summed, columns))
    if not rows and not columns:
        wide = _spread(a, left, [*batch, *summed]) * _spread(b, right, [*batch, *summed])
        return _sum_except(wide, "".join([*batch, *summed]), needed)
    z = matmul(reshape(x, (*lead, m, k)), reshape(y, (*lead, k, n)))
    z = reshape(z, (*lead, *[sizes[c] for c in rows], *[sizes[c] for c in columns]))
    return z, "".join([*batch, *rows, *columns])


def _spread(x: Array, labels: str, order: Sequence[str]) -> Array:
    """Return the operand with the axes `order`, of size 1 for labels that it does not have."""
    present = [c for c in order if c in labels]
    x = transpose(x, [labels.index(c) for c in present])
    sizes = dict(zip(present, x.shape))
    return reshape(x, tuple(sizes.get(c, 1) for c in order))
