"""Operators of which Ascend's Caffe has layers of its own.

Exporters spell a division by the length of a vector, and the regions of RoiAlign, as several operators.
"""

from __future__ import annotations

from collections.abc import Callable

from anylayer.graph import Op, Value
from anylayer.graph.facts import Producers, is_number, number, producer, producer_through, reduced_axes, slice_cuts
from anylayer.graph.operators import VIEWS
from anylayer.graph.sizes import reduced_shape
from anylayer.optimize.rules import Rewriter, rule
from anylayer.writers.caffe.affine_samples import affine_map
from anylayer.writers.caffe.builder import preserves_values

_TARGETS = ("ascend",)

# ---- a division by the length of a vector

_MAX_SUMMAND = 1e-8
"""The largest number added to a length that may be replaced by its square, added to the sum of squares."""
_MAX_BOUND = 1e-6
"""The same for the least length of a divisor."""
_Length = tuple[list[int], float]
"""The axes of a length, and the number that is added to the sum of squares."""


@rule("Div", "Mul", kind="must", targets=_TARGETS, stage="raise")
def _normalized(new: Rewriter, op: Op) -> list[Value] | None:
    """Compute x / sqrt(sum(x * x) + epsilon), also as a product with the reciprocal, by LpNormalization."""
    producers = new.graph.producers
    for x, other in (op.inputs, op.inputs[::-1] if op.op == "Mul" else op.inputs):
        divisor = other if op.op == "Div" else _reciprocal_of(producers, other)
        expand = producer(producers, divisor, "Expand")
        divisor = divisor if expand is None else expand.inputs[0]
        if x is None or divisor is None or x.shape != op.outputs[0].shape:
            continue
        length = _length(producers, divisor, x)
        lead = (1,) * (len(x.shape) - len(divisor.shape))
        if length is not None and (*lead, *divisor.shape) == reduced_shape(x.shape, length[0]):
            return new.emit(op, "LpNormalization", [x], axes=length[0], epsilon=length[1])
    return None


def _reciprocal_of(producers: Producers, value: Value | None) -> Value | None:
    """Return the value whose reciprocal a value is."""
    o = producer(producers, value)
    if o is None or o.op not in ("Div", "Reciprocal"):
        return None
    return o.inputs[-1] if o.op == "Reciprocal" or is_number(o.inputs[0], 1) else None


def _length(producers: Producers, value: Value | None, x: Value) -> _Length | None:
    """Return the axes along which a value is the length of x, up to a summand or bound that is almost 0."""
    o = producer_through(producers, value, VIEWS)
    if o is None:
        return None
    if o.op == "Sqrt" or (o.op == "Pow" and is_number(o.inputs[1], 0.5)):
        return _sum_of_squares(producers, o.inputs[0], x)
    if o.op == "ReduceL2":
        return _summed_axes(producers, o, lambda v: v is x)
    inner, least = _lower_bound(o)
    length = _length(producers, inner, x)
    if length is None or length[1] or not 0 <= least <= (_MAX_SUMMAND if o.op == "Add" else _MAX_BOUND):
        return None
    return length[0], least * least


def _sum_of_squares(producers: Producers, value: Value | None, x: Value) -> _Length | None:
    """Return the axes along which a value is the sum of x * x, and the number added to it."""
    o = producer_through(producers, value, VIEWS)
    if o is None:
        return None
    if o.op == "ReduceSumSquare":
        return _summed_axes(producers, o, lambda v: v is x)
    if o.op == "ReduceSum":
        return _summed_axes(producers, o, lambda v: _is_square(producer(producers, v), x))
    inner, least = _lower_bound(o)
    length = _sum_of_squares(producers, inner, x)
    if length is None or length[1] or not least >= 0 or (o.op != "Add" and least > _MAX_BOUND**2):
        return None
    return length[0], least


def _is_square(op: Op | None, x: Value) -> bool:
    if op is None or op.op not in ("Mul", "Pow") or op.inputs[0] is not x:
        return False
    return op.inputs[1] is x if op.op == "Mul" else is_number(op.inputs[1], 2)


def _summed_axes(producers: Producers, op: Op, wanted: Callable[[Value | None], bool]) -> _Length | None:
    """Return the axes of a wanted value that a reduction sums over. The value may be transposed before it.

    Returns None where the elements of the result are in another order than those of the value.
    """
    axes, source = reduced_axes(op), op.inputs[0]
    if not axes or source is None:
        return None
    perm = list(range(len(source.shape)))
    transpose = None if wanted(source) else producer(producers, source, "Transpose")
    if transpose is not None:
        perm = [int(p) for p in transpose["perm"] or perm[::-1]]
        source = transpose.inputs[0]
    others = [p for i, p in enumerate(perm) if i not in axes]
    return ([perm[a] for a in axes], 0.0) if wanted(source) and others == sorted(others) else None


def _lower_bound(op: Op) -> tuple[Value | None, float]:
    """Return (v, c) where an operator computes v + c or max(v, c); (None, 0) for any other."""
    operands = [v for v in op.inputs if v is not None]
    if op.op not in ("Add", "Max", "Clip") or len(operands) != 2 or operands != op.inputs[:2]:
        return None, 0.0
    for value, other in (operands, operands[::-1]):
        constant = number(other)
        if constant is not None:
            return value, constant
    return None, 0.0


# ---- regions


@rule("GridSample", kind="must", targets=_TARGETS, stage="raise")
def _affine_sample(new: Rewriter, op: Op) -> list[Value] | None:
    """Compute a bilinear GridSample at an affine map of the plane per image by SpatialTransformer."""
    x, grid = op.inputs
    mode, padding = op["mode"], op["padding_mode"]
    if x is None or grid is None or len(x.shape) != 4 or (mode, padding) != ("bilinear", "zeros"):
        return None
    affine = affine_map(grid, x.shape[2:], bool(op["align_corners"]), new.graph.producers)
    if affine is None:
        return None
    theta = [] if affine.theta is None else [affine.theta]
    return new.emit(op, "SpatialTransformer", [x, *theta], matrix=affine.matrix, offset=affine.offset)


@rule("RoiAlign", kind="must", targets=_TARGETS, stage="raise")
def _roi_align(new: Rewriter, op: Op) -> list[Value] | None:
    """Read the images of a RoiAlign, which are rounded, as floats, and together with the regions where both are
    columns of one array."""
    producers = new.graph.producers
    if len(op.inputs) < 3:
        return None
    images = op.inputs[2]
    while images is not None and (o := producer(producers, images)) is not None and preserves_values(o):
        images = o.inputs[0]
    if images is op.inputs[2] or images is None or images.const is not None or images.dtype.kind != "f":
        return None
    first, others = _columns(producers, images), _columns(producers, op.inputs[1])
    if first is not None and others == (first[0], [1, 2, 3, 4]) and (first[1], first[0].shape[1]) == ([0], 5):
        return new.emit(op, op.op, [op.inputs[0], first[0]], **op.attrs)
    return new.emit(op, op.op, [*op.inputs[:2], images], **op.attrs)


def _columns(producers: Producers, value: Value | None) -> tuple[Value, list[int]] | None:
    """Return (m, columns) where a value is some columns of a matrix m."""
    o = producer(producers, value)
    x = None if o is None else o.inputs[0]
    if o is None or x is None or len(x.shape) != 2:
        return None
    if o.op == "Slice":
        cuts = {cut.axis: list(cut.indices) for cut in slice_cuts(o) or ()}
        return (x, cuts[1]) if 1 in cuts and cuts.get(0, rows := [*range(x.shape[0])]) == rows else None
    if int(o["axis"]) % 2 != 1:
        return None
    if o.op == "Gather" and o.inputs[1] is not None and o.inputs[1].const is not None:
        return x, [int(i) % x.shape[1] for i in o.inputs[1].const.reshape(-1)]
    if o.op != "Split" or value is None:
        return None
    start = sum(v.shape[1] for v in o.outputs[: o.outputs.index(value)])
    return x, [*range(start, start + value.shape[1])]
