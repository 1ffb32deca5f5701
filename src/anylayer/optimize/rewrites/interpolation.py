"""Sums of selected rows and columns with constant weights, as interpolation computes them, become products with
constant matrices, or Resize."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anylayer.graph.facts import gathered, slice_cuts
from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.optimize.rewrites.repeats import grid_of
from anylayer.optimize.rules import F4, Producing, Rewriter, rule

_MAX_AXIS_SIZE = 512
"""The size of the longest axis along which terms are searched for."""
_MAX_MATRIX_VALUES = 1 << 18  # elements of a matrix
_ORT_BOTH_AXES, _ORT_ONE_AXIS, _OPENVINO_AXES = 48, 72, 40
"""The sizes of the longest axes along which matrix products are faster than Resize: their work grows with the
axis."""
_OPENVINO_CHANNELS = 32
"""The smallest number of channels for which OpenVINO's Resize is fast."""
_SAME_WEIGHT = 4e-6
"""Weights that differ by at most this are treated as equal, because coordinates are computed in float32."""
_PROPORTIONAL = 1e-6
_MAX_OPERATORS = 64  # operators that one search reads
_MAX_TERMS = 8  # terms of a sum


@dataclass(frozen=True, slots=True)
class _Term:
    """rows @ x @ columns.T along the last two axes of x.

    The matrices have the shape (new size, old size); None leaves an axis as it is. `selects` tells whether the
    terms were found through a selection of rows or columns.
    """

    x: Value
    rows: Array | None = None
    columns: Array | None = None
    selects: bool = False


class _Reader:
    """A search that expresses values as sums of terms of one array. It stops after 64 operators or 8 terms."""

    def __init__(self, new: Producing) -> None:
        self.new = new
        self.left = _MAX_OPERATORS

    def terms(self, value: Value) -> list[_Term]:
        """Return the terms of a value: the value itself where its producer cannot be read, none where it is 0."""
        o = self.new.producer(value)
        found = self.read(o) if o is not None else None
        return [_Term(value)] if found is None else found

    def read(self, o: Op) -> list[_Term] | None:
        """Return the terms of an operator's output."""
        self.left -= 1
        reader = _READERS.get(o.op)
        if reader is None or self.left < 0 or not _is_plane(o):
            return None
        found = reader(self, o)
        if found is None or len(found) > _MAX_TERMS or any(t.x is not found[0].x for t in found):
            return None
        return found

    def sum(self, o: Op) -> list[_Term] | None:
        """Return the terms of a + b or a - b."""
        a, b = o.inputs
        if a is None or b is None or a.const is not None or b.const is not None or a.shape != b.shape:
            return None
        sign = np.array(1.0 if o.op == "Add" else -1.0)
        second = _scaled(self.terms(b), sign, b.shape)
        return None if second is None else _merged([*self.terms(a), *second])

    def product(self, o: Op) -> list[_Term] | None:
        """Return the terms of x * c, c * x, x / c or -x."""
        x, c = o.inputs[0], o.inputs[-1]
        if o.op == "Mul" and x is not None and x.const is not None:
            x, c = c, x
        if x is None or c is None or x.shape != o.outputs[0].shape or (c.const is None and o.op != "Neg"):
            return None
        weight = np.array(-1.0) if c.const is None else c.const.astype(np.float64)
        if o.op == "Div":
            if not weight.all():
                return None
            weight = 1 / weight
        return _scaled(self.terms(x), weight, x.shape)

    def gather(self, o: Op) -> list[_Term] | None:
        """Read the selection of rows or columns, or of a grid of both, by constant indices."""
        found, x = gathered(o), o.inputs[0]
        if found is not None and x is not None:
            return self._selected(x, *found, True)
        grid = grid_of(self.new, o)
        if grid is None or max(grid[0].shape[-2:]) > _MAX_AXIS_SIZE:
            return None
        x, rows, columns = grid
        across, down = _selection(columns, x.shape[-1]), _selection(rows, x.shape[-2])
        return [_applied(_applied(t, across, True, True), down, False, True) for t in self.terms(x)]

    def slice(self, o: Op) -> list[_Term] | None:
        """Read a slice of rows or columns."""
        x, cuts = o.inputs[0], slice_cuts(o)
        if x is None or cuts is None or len(cuts) != 1 or x.shape[cuts[0].axis] > _MAX_AXIS_SIZE:
            return None
        return self._selected(x, cuts[0].axis, np.array(cuts[0].indices, np.int64), False)

    def _selected(self, x: Value, axis: int, indices: Array, selects: bool) -> list[_Term] | None:
        size, inner = x.shape[axis], axis == len(x.shape) - 1
        if axis < len(x.shape) - 2 or size > _MAX_AXIS_SIZE or size * len(indices) > _MAX_MATRIX_VALUES:
            return None
        return [_applied(t, _selection(indices, size), inner, selects) for t in self.terms(x)]

    def matmul(self, o: Op) -> list[_Term] | None:
        """Read a product with a constant matrix. A sparse matrix is treated as a selection."""
        a, b = o.inputs
        if a is None or b is None or (a.const is None) == (b.const is None):
            return None
        x, matrix, inner = (a, b.const, True) if b.const is not None else (b, a.const, False)
        if matrix is None or matrix.ndim != 2 or len(x.shape) < 2:
            return None
        if max(matrix.shape[int(not inner)], 1) > _MAX_AXIS_SIZE or matrix.size > _MAX_MATRIX_VALUES:
            return None
        wide = matrix.T.astype(np.float64) if inner else matrix.astype(np.float64)
        sparse = bool(4 * np.count_nonzero(wide) <= wide.size or np.count_nonzero(wide, axis=1).max() <= 4)
        return [_applied(t, wide, inner, sparse) for t in self.terms(x)]

    def resize(self, o: Op) -> list[_Term] | None:
        """Read a linear Resize of rows and columns, as `_resized` writes it."""
        x, shape = o.inputs[0], o.outputs[0].shape
        coordinates = _COORDINATES.get(o["coordinate_transformation_mode"])
        if x is None or coordinates is None or o["mode"] != "linear" or len(o.attrs) != 2:
            return None
        if len(shape) != 4 or x.shape[:2] != shape[:2] or max(x.shape[2:]) > _MAX_AXIS_SIZE:
            return None
        terms = self.terms(x)
        for axis in (2, 3):
            if x.shape[axis] != shape[axis]:
                matrix = _interpolation_matrix(shape[axis], x.shape[axis], coordinates)
                terms = [_applied(t, matrix, axis == 3, True) for t in terms]
        return terms


_READERS = {
    "Add": _Reader.sum,
    "Sub": _Reader.sum,
    "Mul": _Reader.product,
    "Div": _Reader.product,
    "Neg": _Reader.product,
    "Gather": _Reader.gather,
    "Slice": _Reader.slice,
    "MatMul": _Reader.matmul,
    "Resize": _Reader.resize,
}


def _is_plane(o: Op) -> bool:
    """Return whether an operator's output and computed inputs are float32, with static rows and columns."""
    values = [v for v in o.inputs if v is not None and v.const is None]
    return len(o.outputs[0].shape) > 1 and all(
        v.dtype == F4 and is_static(v.shape[-2:]) for v in [*values, o.outputs[0]]
    )


def _selection(indices: Array, size: int) -> Array:
    matrix = np.zeros((len(indices), size))
    matrix[np.arange(len(indices)), indices] = 1
    return matrix


def _applied(t: _Term, matrix: Array, inner: bool, selects: bool) -> _Term:
    """Multiply a term by a matrix along the last axis (`inner`) or the one before."""
    if inner:
        return replace(
            t, columns=matrix if t.columns is None else matrix @ t.columns, selects=selects or t.selects
        )
    return replace(t, rows=matrix if t.rows is None else matrix @ t.rows, selects=selects or t.selects)


def _scaled(terms: list[_Term], c: Array, shape: tuple[Any, ...]) -> list[_Term] | None:
    """Multiply terms by a constant: one number, one per row, one per column, or products of the last two.

    shape: the shape of the terms' sum. Returns None for other constants, and for axes that are too long.
    """
    if c.ndim > len(shape) or any(d != 1 for d in c.shape[:-2]) or not np.isfinite(c).all():
        return None
    plane = c.reshape((1, 1, *c.shape)[-2:] if c.ndim < 2 else c.shape[-2:])
    i, j = np.unravel_index(np.abs(plane).argmax(), plane.shape)
    corner = plane[i, j]
    if corner == 0:
        return []
    row, column = plane[:, j], plane[i] / corner
    if np.abs(row[:, None] * column - plane).max() > _PROPORTIONAL * abs(corner):
        return None
    if row.size == 1:  # one matrix is sufficient
        row, column = np.ones(1), plane[0]
    result = []
    for t in terms:
        rows_only = column.size == 1 and t.columns is None and t.rows is not None
        rows = _weighted(t.rows, row * column if rows_only else row, shape[-2])
        columns = t.columns if rows_only else _weighted(t.columns, column, shape[-1])
        if rows is _TOO_LONG or columns is _TOO_LONG:
            return None
        result.append(replace(t, rows=rows, columns=columns))
    return result


_TOO_LONG = np.empty(0)


def _weighted(matrix: Array | None, weights: Array, size: int) -> Array | None:
    """Return the matrix with each row multiplied by its weight; None stands for the identity matrix of `size`.
    Returns _TOO_LONG if that identity matrix would be too large.
    """
    if weights.size == 1 and weights[0] == 1:
        return matrix
    if matrix is None:
        if size > _MAX_AXIS_SIZE:
            return _TOO_LONG
        matrix = np.eye(size)
    return matrix * weights[:, None]


def _merged(terms: list[_Term]) -> list[_Term]:
    """Add up the terms that differ only in their rows, or only in their columns."""
    left = list(terms)
    result: list[_Term] = []
    while left:
        first = left.pop()
        for k, other in enumerate(left):
            total = _sum_of_two(first, other)
            if total is not None:
                left[k] = total
                break
        else:
            result.append(first)
    return result


def _sum_of_two(a: _Term, b: _Term) -> _Term | None:
    """Return the sum of two terms as one term, or None where both matrices differ."""
    if a.x is not b.x:
        return None
    selects = a.selects or b.selects
    ratio = _ratio(a.rows, b.rows)
    if ratio is not None:
        columns = _total(a.columns, b.columns, ratio)
        return None if columns is None else _Term(a.x, b.rows, columns, selects)
    ratio = _ratio(a.columns, b.columns)
    if ratio is not None:
        rows = _total(a.rows, b.rows, ratio)
        return None if rows is None else _Term(a.x, rows, b.columns, selects)
    return None


def _ratio(a: Array | None, b: Array | None) -> float | None:
    """Return the number c with a = c * b, or None if there is none. `a` or `b` None stands for an identity
    matrix.
    """
    if a is None and b is None:
        return 1.0
    if a is None or b is None:
        given = a if b is None else b
        if given is None or given.shape[0] != given.shape[1]:
            return None
        a, b = (np.eye(len(given)) if m is None else m for m in (a, b))
    place = np.unravel_index(np.abs(b).argmax(), b.shape)
    if b[place] == 0:
        return None
    c = float(a[place] / b[place])
    return c if np.abs(a - c * b).max() <= _PROPORTIONAL * np.abs(a).max() else None


def _total(a: Array | None, b: Array | None, ratio: float) -> Array | None:
    """Return ratio * a + b. `a` or `b` None stands for an identity matrix."""
    if a is None and b is None:
        return None
    given = a if b is None else b
    if given is None or ((a is None or b is None) and given.shape[0] != given.shape[1]):
        return None
    a, b = (np.eye(len(given)) if m is None else m for m in (a, b))
    return ratio * a + b


def one_term(new: Producing, o: Op) -> _Term | None:
    """Return an operator's output as one term with a matrix for the columns, or for the rows.

    Returns None where no rows or columns are selected.
    """
    found = _Reader(new).read(o)
    return found[0] if found is not None and len(found) == 1 and found[0].selects else None


def _interpolation(new: Rewriter, o: Op) -> _Term | None:
    """Return an operator's output as one term with a matrix for the columns.

    Returns None if the output has less than a quarter of the input's size on an axis: then a product with a matrix
    is slower.
    """
    found = one_term(new, o) if new.is_float32(o) else None
    if found is None or found.columns is None:
        return None
    few = any(m is not None and 4 * len(m) < m.shape[1] for m in (found.rows, found.columns))
    return None if few else found


def _longest(term: _Term) -> int:
    return max(int(m.shape[1]) for m in (term.rows, term.columns) if m is not None)


def _product(new: Rewriter, o: Op, term: _Term) -> list[Value]:
    """Replace `o` by one MatMul for each matrix, in the order that takes fewer multiplications."""
    x, rows, columns = term.x, term.rows, term.columns
    if columns is None:
        raise ValueError("the term has no matrix for the columns")
    right = new.constant(np.ascontiguousarray(columns.T.astype(np.float32)))
    if rows is None:
        return new.result(o, new.step(o, "MatMul", [x, right]))
    left = new.constant(np.ascontiguousarray(rows.astype(np.float32)))
    lead, (old_height, old_width) = x.shape[:-2], x.shape[-2:]
    height, width = len(rows), len(columns)
    if height * old_width * (old_height + width) < old_height * width * (old_width + height):
        tall = new.step(o, "MatMul", [left, x], (*lead, height, old_width))
        return new.result(o, new.step(o, "MatMul", [tall, right], (*lead, height, width)))
    across = new.step(o, "MatMul", [x, right], (*lead, old_height, width))
    return new.result(o, new.step(o, "MatMul", [left, across], (*lead, height, width)))


_COORDINATES: dict[str, Callable[[Array, int, int], Array]] = {
    "align_corners": lambda i, old, new: i * ((old - 1) / max(new - 1, 1)),
    "half_pixel": lambda i, old, new: (i + 0.5) * (old / new) - 0.5,
    "asymmetric": lambda i, old, new: i * (old / new),
}
"""coordinate_transformation_mode of Resize -> the coordinate in the input of an index of the output."""


def _coordinates_of(term: _Term) -> str | None:
    """Return the coordinate_transformation_mode by which all matrices of a term interpolate linearly."""
    for mode, coordinates in _COORDINATES.items():
        if all(m is None or _interpolates(m, coordinates) for m in (term.rows, term.columns)):
            return mode
    return None


def _interpolates(matrix: Array, coordinates: Callable[[Array, int, int], Array]) -> bool:
    new, old = matrix.shape
    return bool(np.abs(_interpolation_matrix(new, old, coordinates) - matrix).max() <= _SAME_WEIGHT)


def _interpolation_matrix(new: int, old: int, coordinates: Callable[[Array, int, int], Array]) -> Array:
    at = np.clip(coordinates(np.arange(new, dtype=np.float64), old, new), 0, old - 1)
    hat: Array = np.maximum(1 - np.abs(at[:, None] - np.arange(old)), 0)
    return hat


def _resized(new: Rewriter, o: Op, term: _Term) -> list[Value] | None:
    """Replace `o` by a linear Resize, if that is what the matrices compute."""
    shape = o.outputs[0].shape
    mode = _coordinates_of(term) if len(shape) == 4 and term.x.shape[:2] == shape[:2] else None
    if mode is None:
        return None
    sizes = new.ints(shape)
    return new.emit(o, "Resize", [term.x, None, None, sizes], mode="linear", coordinate_transformation_mode=mode)


@rule(
    "Add",
    "Sub",
    targets=("onnxruntime",),
    kind="faster",
    figure="bilinear, us: 256x13x13 to 26x26 483 -> 98, four taps 1004 -> 99; 64x20x20 to 40x40 226 -> 101; "
    "64x65x65 to 129x129 802 (columns by Gather 14148) -> 737 as Resize, 1099 as products; 64x129x129 to 257x257 "
    "18989 -> 5904",
)
def _weighted_sum(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute a sum of selected columns, and perhaps rows, with constant weights by a MatMul with one matrix per
    axis; along long axes by Resize, if the weights are those of a linear interpolation."""
    term = _interpolation(new, o)
    if term is None:
        return None
    long = _longest(term) > (_ORT_ONE_AXIS if term.rows is None else _ORT_BOTH_AXES)
    found = _resized(new, o, term) if long else None
    return found or (_product(new, o, term) if _longest(term) <= _ORT_ONE_AXIS else None)


@rule(
    "Add",
    "Sub",
    targets=("openvino",),
    kind="faster",
    figure="bilinear, us: 64x65x65 to 129x129 1890 -> 967, 256x33x33 to 65x65 2274 -> 639, 256x13x13 to 26x26 "
    "296 -> 114, 64x20x20 to 40x40 168 -> 116, four taps 278 -> 116; 8x65x65 to 129x129 178 -> "
    "285: not used for them",
)
def _weighted_sum_openvino(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute a sum of selected columns, and perhaps rows, with constant weights by Resize for many channels, if
    the weights are those of a linear interpolation; along short axes by a MatMul with one matrix per axis."""
    term = _interpolation(new, o)
    if term is None:
        return None
    found = _resized(new, o, term) if _has_many_channels(term) else None
    return found or (_product(new, o, term) if _longest(term) <= _OPENVINO_AXES else None)


def _has_many_channels(term: _Term) -> bool:
    return len(term.x.shape) == 4 and term.x.shape[1] >= _OPENVINO_CHANNELS


@rule(
    "MatMul",
    targets=("onnxruntime",),
    kind="faster",
    figure="64x65x65 to 129x129, us: 1099 -> 737, 8x65x65 151 -> 107; 64x20x20 to 40x40 101 -> "
    "156: not used for them",
)
def _interpolating_products(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute MatMuls along long rows and columns that interpolate linearly by Resize."""
    term = _interpolation(new, o)
    if term is None or term.rows is None or _longest(term) <= _ORT_BOTH_AXES:
        return None
    return _resized(new, o, term)


@rule(
    "MatMul",
    targets=("openvino",),
    kind="faster",
    figure="64x65x65 to 129x129, us: 2545 -> 942, 256x33x33 to 65x65 1466 -> 646, 256x13x13 to 26x26 151 -> 107",
)
def _interpolating_products_openvino(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute MatMuls along rows and columns of many channels that interpolate linearly by Resize."""
    term = _interpolation(new, o)
    if term is None or term.rows is None or not _has_many_channels(term):
        return None
    return _resized(new, o, term)
