"""Sums of rows and columns with constant weights become products with constant matrices, or Resize."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anylayer.graph.facts import gathered, slice_cuts
from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.ops._interpolation import Interpolation, as_matrix, attributes_of, interpolation, positions, step_of
from anylayer.optimize.rewrites.repeats import grid_of
from anylayer.optimize.rewrites.resizing import OPENVINO_CHANNELS, ORT_BOTH_AXES, ORT_ONE_AXIS
from anylayer.optimize.rules import F4, Producing, Rewriter, rule

_MAX_AXIS_SIZE = 512
"""The size of the longest axis along which terms are searched for."""
_MAX_MATRIX_VALUES = 1 << 18  # elements of a matrix
_OPENVINO_AXES = 40
"""The size of the longest axis along which matrix products are faster than the sums of few channels."""
_SAME_WEIGHT = 4e-6
"""Weights that differ by at most this are treated as equal, because coordinates are computed in float32."""
_PROPORTIONAL = 1e-6
_COORDINATES = ("align_corners", "half_pixel", "asymmetric")
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
        terms = self.read(o) if o is not None else None
        return [_Term(value)] if terms is None else terms

    def read(self, o: Op) -> list[_Term] | None:
        """Return the terms of an operator's output."""
        self.left -= 1
        reader = _READERS.get(o.op)
        if reader is None or self.left < 0 or not _is_plane(o):
            return None
        terms = reader(self, o)
        if terms is None or len(terms) > _MAX_TERMS or any(t.x is not terms[0].x for t in terms):
            return None
        return terms

    def sum(self, o: Op) -> list[_Term] | None:
        """Return the terms of a + b or a - b."""
        a, b = o.inputs
        if a is None or b is None or a.const is not None or b.const is not None or a.shape != b.shape:
            return None
        sign = np.array(1.0 if o.op == "Add" else -1.0)
        second = _scale(self.terms(b), sign, b.shape)
        return None if second is None else _merge([*self.terms(a), *second])

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
        return _scale(self.terms(x), weight, x.shape)

    def gather(self, o: Op) -> list[_Term] | None:
        """Read the selection of rows or columns, or of a grid of both, by constant indices."""
        found, x = gathered(o), o.inputs[0]
        if found is not None and x is not None:
            return self._select(x, *found, True)
        grid = grid_of(self.new, o)
        if grid is None or max(grid[0].shape[-2:]) > _MAX_AXIS_SIZE:
            return None
        x, rows, columns = grid
        across, down = _selection(columns, x.shape[-1]), _selection(rows, x.shape[-2])
        return [_apply(_apply(t, across, True, True), down, False, True) for t in self.terms(x)]

    def slice(self, o: Op) -> list[_Term] | None:
        """Read a slice of rows or columns."""
        x, cuts = o.inputs[0], slice_cuts(o)
        if x is None or cuts is None or len(cuts) != 1 or x.shape[cuts[0].axis] > _MAX_AXIS_SIZE:
            return None
        return self._select(x, cuts[0].axis, np.array(cuts[0].indices, np.int64), False)

    def _select(self, x: Value, axis: int, indices: Array, selects: bool) -> list[_Term] | None:
        size, inner = x.shape[axis], axis == len(x.shape) - 1
        if axis < len(x.shape) - 2 or size > _MAX_AXIS_SIZE or size * len(indices) > _MAX_MATRIX_VALUES:
            return None
        return [_apply(t, _selection(indices, size), inner, selects) for t in self.terms(x)]

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
        return [_apply(t, wide, inner, sparse) for t in self.terms(x)]

    def resize(self, o: Op) -> list[_Term] | None:
        """Read a linear Resize of rows and columns, as `_resized` writes it."""
        x, shape = o.inputs[0], o.outputs[0].shape
        coordinates = o["coordinate_transformation_mode"]
        if x is None or coordinates not in _COORDINATES or o["mode"] != "linear" or len(o.attrs) != 2:
            return None
        if len(shape) != 4 or x.shape[:2] != shape[:2] or max(x.shape[2:]) > _MAX_AXIS_SIZE:
            return None
        terms = self.terms(x)
        for axis in (2, 3):
            if x.shape[axis] != shape[axis]:
                matrix = _interpolation_matrix(shape[axis], x.shape[axis], coordinates)
                terms = [_apply(t, matrix, axis == 3, True) for t in terms]
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


def _apply(t: _Term, matrix: Array, inner: bool, selects: bool) -> _Term:
    """Multiply a term by a matrix along the last axis (`inner`) or the one before."""
    if inner:
        return replace(
            t, columns=matrix if t.columns is None else matrix @ t.columns, selects=selects or t.selects
        )
    return replace(t, rows=matrix if t.rows is None else matrix @ t.rows, selects=selects or t.selects)


def _scale(terms: list[_Term], c: Array, shape: tuple[Any, ...]) -> list[_Term] | None:
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
        weights = (row, column)
        if column.size == 1 and t.columns is None and t.rows is not None:
            weights = (row * column, np.ones(1))
        matrices: list[Array | None] = []
        for matrix, weight, size in zip((t.rows, t.columns), weights, shape[-2:]):
            if weight.size == 1 and weight[0] == 1:
                matrices.append(matrix)
            elif matrix is None and size > _MAX_AXIS_SIZE:
                return None
            else:
                matrices.append((np.eye(size) if matrix is None else matrix) * weight[:, None])
        result.append(replace(t, rows=matrices[0], columns=matrices[1]))
    return result


def _merge(terms: list[_Term]) -> list[_Term]:
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
        both = _dense(a.columns, b.columns)
        return None if both is None else _Term(a.x, b.rows, ratio * both[0] + both[1], selects)
    ratio, both = _ratio(a.columns, b.columns), _dense(a.rows, b.rows)
    return None if ratio is None or both is None else _Term(a.x, ratio * both[0] + both[1], b.columns, selects)


def _dense(a: Array | None, b: Array | None) -> tuple[Array, Array] | None:
    """Return two matrices, an identity matrix for None. Return None for two of them and for other shapes."""
    if a is None:
        return None if b is None else _dense(np.eye(b.shape[1]), b)
    b = np.eye(a.shape[1]) if b is None else b
    return (a, b) if a.shape == b.shape else None


def _ratio(a: Array | None, b: Array | None) -> float | None:
    """Return the number c with a = c * b, or None if there is none."""
    if a is None and b is None:
        return 1.0
    both = _dense(a, b)
    if both is None:
        return None
    first, second = both
    place = np.unravel_index(np.abs(second).argmax(), second.shape)
    if second[place] == 0:
        return None
    c = float(first[place] / second[place])
    return c if np.abs(first - c * second).max() <= _PROPORTIONAL * np.abs(first).max() else None


def one_term(new: Producing, o: Op) -> _Term | None:
    """Return an operator's output as one term with a matrix for the columns, or for the rows.

    Returns None where no rows or columns are selected.
    """
    terms = _Reader(new).read(o)
    return terms[0] if terms is not None and len(terms) == 1 and terms[0].selects else None


def _interpolation(new: Rewriter, o: Op) -> _Term | None:
    """Return an operator's output as one term with a matrix for the columns.

    Returns None if the output has less than a quarter of the input's size on an axis: then a product with a matrix
    is slower.
    """
    term = one_term(new, o) if new.is_float32(o) else None
    if term is None or term.columns is None:
        return None
    if o.op == "MatMul" and term.rows is None:
        return None
    few = any(m is not None and 4 * len(m) < m.shape[1] for m in (term.rows, term.columns))
    return None if few else term


def _longest(term: _Term) -> int:
    return max(int(m.shape[1]) for m in (term.rows, term.columns) if m is not None)


def _product(new: Rewriter, o: Op, term: _Term, longest: int) -> list[Value] | None:
    """Replace `o` by one MatMul for each matrix, in the order that takes fewer multiplications.

    Return None for a MatMul, and along axes longer than `longest`.
    """
    if o.op == "MatMul" or _longest(term) > longest:
        return None
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


def interpolated(new: Producing, o: Op) -> tuple[Value, str] | None:
    """Return (x, coordinate_transformation_mode) where an operator interpolates x (N, C, H, W) linearly."""
    term, shape = one_term(new, o), o.outputs[0].shape
    if term is None or len(shape) != 4 or term.x.shape[:2] != shape[:2]:
        return None
    mode = _coordinates_of(term)
    return None if mode is None else (term.x, mode)


def _coordinates_of(term: _Term) -> str | None:
    """Return the coordinate_transformation_mode by which all matrices of a term interpolate linearly."""
    matrices = [m for m in (term.rows, term.columns) if m is not None]
    for mode in _COORDINATES:
        differences = (np.abs(_interpolation_matrix(len(m), m.shape[1], mode) - m).max() for m in matrices)
        if max(differences) <= _SAME_WEIGHT:
            return mode
    return None


def _interpolation_matrix(new: int, old: int, mode: str) -> Array:
    """Return the matrix of a linear interpolation whose positions are not rounded to float32."""
    at = positions(old, new, mode, step=step_of(old, new, mode, np.float64))
    return as_matrix(*interpolation(at, old, new, "linear", 0, False, False), old).astype(np.float64)


def _resized(new: Rewriter, o: Op) -> list[Value] | None:
    """Replace `o` by a linear Resize, if that is what the matrices compute."""
    resizing = interpolated(new, o)
    if resizing is None:
        return None
    x, mode = resizing
    sizes = new.ints(o.outputs[0].shape)
    return new.emit(o, "Resize", [x, None, None, sizes], **attributes_of(Interpolation(coordinates=mode)))


@rule(
    "Add",
    "Sub",
    "MatMul",
    targets=("onnxruntime",),
    kind="faster",
    figure="bilinear, us: 256x13x13 to 26x26 483 -> 98, four taps 1004 -> 99; 64x20x20 to 40x40 226 -> 101; "
    "64x65x65 to 129x129 802 (columns by Gather 14148) -> 737 as Resize, 1099 as products; 64x129x129 to 257x257 "
    "18989 -> 5904",
)
def _interpolated_onnxruntime(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute a sum of selected columns, and perhaps rows, with constant weights by a MatMul with one matrix per
    axis; along long axes by Resize, if the weights are those of a linear interpolation."""
    term = _interpolation(new, o)
    if term is None:
        return None
    long = _longest(term) > (ORT_ONE_AXIS if term.rows is None else ORT_BOTH_AXES)
    return (_resized(new, o) if long else None) or _product(new, o, term, ORT_ONE_AXIS)


@rule(
    "Add",
    "Sub",
    "MatMul",
    targets=("openvino",),
    kind="faster",
    figure="bilinear, us: 64x65x65 to 129x129 1890 -> 967, 256x33x33 to 65x65 2274 -> 639, 256x13x13 to 26x26 "
    "296 -> 114, 64x20x20 to 40x40 168 -> 116, four taps 278 -> 116; 8x65x65 to 129x129 178 -> "
    "285: not used for them",
)
def _interpolated_openvino(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute a sum of selected columns, and perhaps rows, with constant weights by Resize for many channels, if
    the weights are those of a linear interpolation; along short axes by a MatMul with one matrix per axis."""
    term = _interpolation(new, o)
    if term is None:
        return None
    many = len(term.x.shape) == 4 and term.x.shape[1] >= OPENVINO_CHANNELS
    return (_resized(new, o) if many else None) or _product(new, o, term, _OPENVINO_AXES)
