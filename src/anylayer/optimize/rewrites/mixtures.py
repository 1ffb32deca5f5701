"""Sums of picks with constant weights, as interpolation makes them, become products with constant matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.network import Array
from anylayer.optimize.rewrites.matching import float32, ints, last, plain, step
from anylayer.optimize.rewrites.repeats import grid, picks
from anylayer.optimize.simplify import Rewriter, rule

_LONGEST = 512  # of an axis whose elements are mixed
_MATRIX = 1 << 18
_SHORT, _MIDDLING, _SHORTER = 48, 72, 40  # axes up to which products pay: their work grows with the axis
_CHANNELS = 32  # from which on OpenVINO's Resize is fast
_SAME = 4e-6  # of two weights: what float32 leaves of coordinates
_VISITS = 64
_TERMS = 8
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class _Term:
    """A matrix (new, old) over the rows of x and one over its columns; None where an axis stays as it is."""

    x: Value
    rows: Array | None = None
    columns: Array | None = None
    picked: bool = False


class _Reader:
    """Reads values as sums of terms over one array, and gives up where that takes long."""

    def __init__(self, new: Rewriter) -> None:
        self.new = new
        self.left = _VISITS

    def terms(self, value: Value) -> list[_Term]:
        """The terms of a value; itself where it is not understood, none where it is 0."""
        maker = self.new.maker(value)
        found = self.read(maker) if maker is not None else None
        return [_Term(value)] if found is None else found

    def read(self, o: Op) -> list[_Term] | None:
        """The terms of what an operator gives."""
        self.left -= 1
        reader = _READERS.get(o.op)
        if reader is None or self.left < 0 or not plain(o) or len(o.outputs[0].shape) < 2:
            return None
        found = reader(self, o)
        if found is None or len(found) > _TERMS or any(t.x is not found[0].x for t in found):
            return None
        return found

    def sum(self, o: Op) -> list[_Term] | None:
        """a + b or a - b."""
        a, b = o.inputs
        if a is None or b is None or a.const is not None or b.const is not None or a.shape != b.shape:
            return None
        sign = np.array(1.0 if o.op == "Add" else -1.0)
        second = _scaled(self.terms(b), sign, b.shape)
        return None if second is None else _merged([*self.terms(a), *second])

    def product(self, o: Op) -> list[_Term] | None:
        """x * c or c * x or x / c or -x."""
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
        """Rows or columns by constant indices."""
        found, x = picks(o), o.inputs[0]
        if found is not None and x is not None:
            return self._picked(x, *found, True)
        both = grid(self.new, o)
        if both is None or max(both[0].shape[-2:]) > _LONGEST:
            return None
        x, rows, columns = both
        across, down = _selection(columns, x.shape[-1]), _selection(rows, x.shape[-2])
        return [_applied(_applied(t, across, True, True), down, False, True) for t in self.terms(x)]

    def slice(self, o: Op) -> list[_Term] | None:
        """Rows or columns by a slice."""
        x, bounds = o.inputs[0], [ints(v) for v in o.inputs[1:]]
        if x is None or len(bounds) != 4 or any(b is None or len(b) != 1 for b in bounds):
            return None
        (start,), (end,), (axis,), (by,) = (b for b in bounds if b is not None)
        axis %= len(x.shape)
        size = x.shape[axis]
        if size > _LONGEST:
            return None
        stop = None if by < 0 and end < -size else end
        return self._picked(x, axis, np.arange(size)[start:stop:by], False)

    def _picked(self, x: Value, axis: int, indices: Array, picked: bool) -> list[_Term] | None:
        size, inner = x.shape[axis], axis == len(x.shape) - 1
        if axis < len(x.shape) - 2 or size > _LONGEST or size * len(indices) > _MATRIX:
            return None
        return [_applied(t, _selection(indices, size), inner, picked) for t in self.terms(x)]

    def matmul(self, o: Op) -> list[_Term] | None:
        """Rows or columns by a constant matrix."""
        a, b = o.inputs
        if a is None or b is None or (a.const is None) == (b.const is None):
            return None
        x, matrix, inner = (a, b.const, True) if b.const is not None else (b, a.const, False)
        if (
            matrix is None
            or matrix.ndim != 2
            or len(x.shape) < 2
            or max(matrix.shape[int(not inner)], 1) > _LONGEST
        ):
            return None
        if matrix.size > _MATRIX:
            return None
        wide = matrix.T.astype(np.float64) if inner else matrix.astype(np.float64)
        sparse = bool(4 * np.count_nonzero(wide) <= wide.size or np.count_nonzero(wide, axis=1).max() <= 4)
        return [_applied(t, wide, inner, sparse) for t in self.terms(x)]

    def resize(self, o: Op) -> list[_Term] | None:
        """Both by interpolation, as `_resized` makes it."""
        x, shape = o.inputs[0], o.outputs[0].shape
        places = _PLACES.get(o.attrs.get("coordinate_transformation_mode", ""))
        if x is None or places is None or o.attrs.get("mode") != "linear" or len(o.attrs) != 2 or len(shape) != 4:
            return None
        if x.shape[:2] != shape[:2] or max(x.shape[2:]) > _LONGEST:
            return None
        terms = self.terms(x)
        for axis in (2, 3):
            if x.shape[axis] != shape[axis]:
                matrix = _interpolation_matrix(shape[axis], x.shape[axis], places)
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


def _selection(indices: Array, size: int) -> Array:
    matrix = np.zeros((len(indices), size))
    matrix[np.arange(len(indices)), indices] = 1
    return matrix


def _applied(t: _Term, matrix: Array, inner: bool, picked: bool) -> _Term:
    if inner:
        return replace(t, columns=matrix if t.columns is None else matrix @ t.columns, picked=picked or t.picked)
    return replace(t, rows=matrix if t.rows is None else matrix @ t.rows, picked=picked or t.picked)


def _scaled(terms: list[_Term], c: Array, shape: tuple[Any, ...]) -> list[_Term] | None:
    """The terms times a constant: one number, one a row, one a column, or products of these."""
    if c.ndim > len(shape) or any(d != 1 for d in c.shape[:-2]) or not np.isfinite(c).all():
        return None
    plane = c.reshape((1, 1, *c.shape)[-2:] if c.ndim < 2 else c.shape[-2:])
    i, j = np.unravel_index(np.abs(plane).argmax(), plane.shape)
    corner = plane[i, j]
    if corner == 0:
        return []
    row, column = plane[:, j], plane[i] / corner
    if np.abs(row[:, None] * column - plane).max() > _CLOSE * abs(corner):
        return None
    if row.size == 1:  # then one matrix is enough
        row, column = np.ones(1), plane[0]
    result = []
    for t in terms:
        alone = column.size == 1 and t.columns is None and t.rows is not None
        rows = _weighted(t.rows, row * column if alone else row, shape[-2])
        columns = t.columns if alone else _weighted(t.columns, column, shape[-1])
        if rows is _TOO_LONG or columns is _TOO_LONG:
            return None
        result.append(replace(t, rows=rows, columns=columns))
    return result


_TOO_LONG = np.empty(0)


def _weighted(matrix: Array | None, weights: Array, size: int) -> Array | None:
    """The matrix with each row times its weight; _TOO_LONG where an axis had none and is too long for one."""
    if weights.size == 1 and weights[0] == 1:
        return matrix
    if matrix is None:
        if size > _LONGEST:
            return _TOO_LONG
        matrix = np.eye(size)
    return matrix * weights[:, None]


def _merged(terms: list[_Term]) -> list[_Term]:
    """The terms with those added up that differ in the rows alone, or in the columns alone."""
    left = list(terms)
    result: list[_Term] = []
    while left:
        first = left.pop()
        for k, other in enumerate(left):
            joined = _joined(first, other)
            if joined is not None:
                left[k] = joined
                break
        else:
            result.append(first)
    return result


def _joined(a: _Term, b: _Term) -> _Term | None:
    if a.x is not b.x:
        return None
    picked = a.picked or b.picked
    ratio = _ratio(a.rows, b.rows)
    if ratio is not None:
        columns = _total(a.columns, b.columns, ratio)
        return None if columns is None else _Term(a.x, b.rows, columns, picked)
    ratio = _ratio(a.columns, b.columns)
    if ratio is not None:
        rows = _total(a.rows, b.rows, ratio)
        return None if rows is None else _Term(a.x, rows, b.columns, picked)
    return None


def _ratio(a: Array | None, b: Array | None) -> float | None:
    """c where a = c * b."""
    if a is None and b is None:
        return 1.0
    if a is None or b is None:
        known = a if b is None else b
        if known is None or known.shape[0] != known.shape[1]:
            return None
        a, b = (np.eye(len(known)) if m is None else m for m in (a, b))
    place = np.unravel_index(np.abs(b).argmax(), b.shape)
    if b[place] == 0:
        return None
    c = float(a[place] / b[place])
    return c if np.abs(a - c * b).max() <= _CLOSE * np.abs(a).max() else None


def _total(a: Array | None, b: Array | None, ratio: float) -> Array | None:
    """ratio * a + b."""
    if a is None and b is None:
        return None
    known = a if b is None else b
    if known is None or ((a is None or b is None) and known.shape[0] != known.shape[1]):
        return None
    a, b = (np.eye(len(known)) if m is None else m for m in (a, b))
    return ratio * a + b


def _mixed(new: Rewriter, o: Op) -> _Term | None:
    """What an operator gives as one term that mixes columns, where that is not a poor trade."""
    found = _Reader(new).read(o)
    if found is None or len(found) != 1 or found[0].columns is None or not found[0].picked:
        return None
    few = any(m is not None and 4 * len(m) < m.shape[1] for m in (found[0].rows, found[0].columns))
    return None if few else found[0]


def _longest(term: _Term) -> int:
    return max(int(m.shape[1]) for m in (term.rows, term.columns) if m is not None)


def _product(new: Rewriter, o: Op, term: _Term) -> list[Value]:
    """The columns times one matrix, the rows times another; first the axis after which there is less to do."""
    x, rows, columns = term.x, term.rows, term.columns
    if columns is None:
        raise ValueError("a mixture of rows alone")
    right = new.constant(np.ascontiguousarray(float32(columns.T)))
    if rows is None:
        return last(new, o, step(new, o, "MatMul", [x, right]))
    left = new.constant(np.ascontiguousarray(float32(rows)))
    lead, (old_high, old_wide) = x.shape[:-2], x.shape[-2:]
    high, wide = len(rows), len(columns)
    if high * old_wide * (old_high + wide) < old_high * wide * (old_wide + high):
        tall = step(new, o, "MatMul", [left, x], (*lead, high, old_wide))
        return last(new, o, step(new, o, "MatMul", [tall, right], (*lead, high, wide)))
    across = step(new, o, "MatMul", [x, right], (*lead, old_high, wide))
    return last(new, o, step(new, o, "MatMul", [left, across], (*lead, high, wide)))


def _coordinates(term: _Term) -> str | None:
    """The rule by which both matrices interpolate between two neighbours."""
    for rule_, places in _PLACES.items():
        if all(m is None or _interpolates(m, places) for m in (term.rows, term.columns)):
            return rule_
    return None


_PLACES: dict[str, Callable[[Array, int, int], Array]] = {
    "align_corners": lambda i, old, new: i * ((old - 1) / max(new - 1, 1)),
    "half_pixel": lambda i, old, new: (i + 0.5) * (old / new) - 0.5,
    "asymmetric": lambda i, old, new: i * (old / new),
}


def _interpolates(matrix: Array, places: Callable[[Array, int, int], Array]) -> bool:
    new, old = matrix.shape
    return bool(np.abs(_interpolation_matrix(new, old, places) - matrix).max() <= _SAME)


def _interpolation_matrix(new: int, old: int, places: Callable[[Array, int, int], Array]) -> Array:
    at = np.clip(places(np.arange(new, dtype=np.float64), old, new), 0, old - 1)
    hat: Array = np.maximum(1 - np.abs(at[:, None] - np.arange(old)), 0)
    return hat


def _resized(new: Rewriter, o: Op, term: _Term) -> list[Value] | None:
    """ONNX's linear Resize, where that is what the matrices are."""
    shape = o.outputs[0].shape
    how = _coordinates(term) if len(shape) == 4 and term.x.shape[:2] == shape[:2] else None
    if how is None:
        return None
    sizes = new.constant(np.array(shape, np.int64))
    return new.emit(o, "Resize", [term.x, None, None, sizes], mode="linear", coordinate_transformation_mode=how)


@rule(
    "Add",
    "Sub",
    engines=("onnxruntime",),
    inexact=True,
    figure="bilinear, us: 256x13x13 to 26x26 483 -> 98, four taps 1004 -> 99; 64x20x20 to 40x40 226 -> 101; "
    "64x65x65 to 129x129 802 (columns by Gather 14148) -> 737 as Resize, 1099 as products; 64x129x129 to 257x257 "
    "18989 -> 5904",
)
def _mixture(new: Rewriter, o: Op) -> list[Value] | None:
    """A sum of picked columns (and rows) with constant weights is a product with one matrix for each axis; of long
    axes it is Resize, where that is what the weights say."""
    term = _mixed(new, o)
    if term is None:
        return None
    long = _longest(term) > (_MIDDLING if term.rows is None else _SHORT)
    found = _resized(new, o, term) if long else None
    return found or (_product(new, o, term) if _longest(term) <= _MIDDLING else None)


@rule(
    "Add",
    "Sub",
    engines=("openvino",),
    inexact=True,
    figure="bilinear, us: 64x65x65 to 129x129 1890 -> 967, 256x33x33 to 65x65 2274 -> 639, 256x13x13 to 26x26 "
    "296 -> 114, 64x20x20 to 40x40 168 -> 116, four taps 278 -> 116; 8x65x65 to 129x129 178 -> 285: not those",
)
def _mixture_of_many(new: Rewriter, o: Op) -> list[Value] | None:
    """The same, as Resize where there are many channels, as products where axes are short."""
    term = _mixed(new, o)
    if term is None:
        return None
    found = _resized(new, o, term) if _many(term) else None
    return found or (_product(new, o, term) if _longest(term) <= _SHORTER else None)


def _many(term: _Term) -> bool:
    return len(term.x.shape) == 4 and term.x.shape[1] >= _CHANNELS


@rule(
    "MatMul",
    engines=("onnxruntime",),
    inexact=True,
    figure="64x65x65 to 129x129, us: 1099 -> 737, 8x65x65 151 -> 107; 64x20x20 to 40x40 101 -> 156: not those",
)
def _long_interpolation(new: Rewriter, o: Op) -> list[Value] | None:
    """Products of rows and columns that interpolate between two neighbours are Resize."""
    term = _mixed(new, o)
    return (
        _resized(new, o, term) if term is not None and term.rows is not None and _longest(term) > _SHORT else None
    )


@rule(
    "MatMul",
    engines=("openvino",),
    inexact=True,
    figure="64x65x65 to 129x129, us: 2545 -> 942, 256x33x33 to 65x65 1466 -> 646, 256x13x13 to 26x26 151 -> 107",
)
def _interpolation_of_many(new: Rewriter, o: Op) -> list[Value] | None:
    """The same."""
    term = _mixed(new, o)
    return _resized(new, o, term) if term is not None and term.rows is not None and _many(term) else None
