"""Operators that move elements, as index arithmetic, which is fused into their consumers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.expressions import Expression, constant
from anylayer.graph.facts import padding_of
from anylayer.graph.sized import elements_of
from anylayer.graph.sizes import Dim
from anylayer.loops.composites import is_checked
from anylayer.loops.ir import (
    BOOL,
    INT,
    Buffer,
    If,
    Local,
    Loop,
    Scalar,
    Set,
    Statement,
    Store,
    behind,
    extremum,
    nested,
)
from anylayer.loops.lowering import Index, Lowering, Unsupported, elements, given, nests, size_of, sizes_of
from anylayer.loops.reductions import copies
from anylayer.loops.space import Space

_MAX_TOGETHER = 4
"""The largest number of parts of a Concat that share loops."""


@elements("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _reshape(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    x = given(op)
    return low.element(x, reshaped(low.space, index, sizes_of(op.outputs[0]), sizes_of(x)))


def reshaped(
    space: Space, index: Sequence[Expression], shape: Sequence[Expression], old: Sequence[Expression]
) -> Index:
    """Return the index in an array of shape `old` that is the index of the array reshaped to `shape`."""
    places: Index = []
    first = start = 0
    for stop, end in _cuts(old, shape):
        offset = Buffer("", INT, tuple(shape[start:end]), "").offset(index[start:end])
        places += _split(space, offset, old[first:stop])
        first, start = stop, end
    return places


def _cuts(old: Sequence[Expression], new: Sequence[Expression]) -> list[tuple[int, int]]:
    """Return the positions at which two shapes can be cut into groups with equal numbers of elements."""
    products: dict[Expression, int] = {}
    total = constant(1)
    for j, size in enumerate(new):
        total = total * size
        products.setdefault(total, j + 1)
    groups, total, last = [], constant(1), 0
    for i, size in enumerate(old):
        total = total * size
        j = products.get(total, 0)
        if j > last:
            groups.append((i + 1, j))
            last = j
    return [*(cut for cut in groups if cut[0] < len(old) and cut[1] < len(new)), (len(old), len(new))]


def _split(space: Space, offset: Expression, sizes: Sequence[Expression]) -> Index:
    index: Index = []
    for at, size in reversed(list(enumerate(sizes))):
        index.append(offset if at == 0 else space.remainder(offset, size))
        offset = space.quotient(offset, size)
    return index[::-1]


@elements("Transpose")
def _transpose(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    order = op["perm"] or range(len(index))[::-1]
    source_index = [constant(0)] * len(index)
    for axis, source in enumerate(order):
        source_index[int(source)] = index[axis]
    return low.element(given(op), source_index)


elements("Expand")(lambda low, op, at, index: low.operand(given(op), index, op.outputs[0].shape))


@elements("Tile")
def _tile(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    x = given(op)
    return low.element(x, [low.space.remainder(i, d) for i, d in zip(index, sizes_of(x))])


def cuts(low: Lowering, op: Op) -> list[tuple[int, Expression, int]]:
    """Return (axis, start, step) of each axis that a Slice names; starts count from the front."""
    x = given(op)
    starts = low.number(given(op, 1))
    axes, steps = (low.number(op.input(i)) for i in (3, 4))
    if starts is None or (op.input(3) is not None and axes is None):
        raise Unsupported("a Slice whose bounds are computed")
    bounds = []
    for n, start in enumerate(starts):
        axis = (axes[n].constant or 0) % len(x.shape) if axes is not None else n
        step = 1 if steps is None else steps[n].constant
        if step is None:
            raise Unsupported("a Slice whose step is computed")
        bounds.append((axis, _start(start, size_of(x.shape[axis]), step), step))
    return bounds


def _start(start: Expression, size: Expression, step: int) -> Expression:
    """Return the first index of a slice, counted from the front and inside the axis."""
    number = start.constant
    if number is None:
        return start
    if number < 0:
        start = start + size
        return start if size.constant is None else constant(max(start.constant or 0, 0))
    last = size - constant(1 if step < 0 else 0)
    if number == 0:
        return start
    if last.constant is not None:
        return constant(min(number, last.constant))
    return last if number >= 2**31 - 1 else extremum("min", start, last)


@elements("Slice")
def _slice(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    for axis, start, step in cuts(low, op):
        index[axis] = start + constant(step) * index[axis]
    x = given(op)
    return low.element(x, [low.space.clamped(i, d) for i, d in zip(index, sizes_of(x))])


@elements("Split")
def _split_op(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    axis = op["axis"] % len(index)
    for before in op.outputs[:at]:
        index[axis] = index[axis] + size_of(before.shape[axis])
    return low.element(given(op), index)


@elements("Concat")
def _concat(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    """Return an element of one of the parts, which comparisons select if the index does not determine it."""
    axis = op["axis"] % len(index)
    place, element = index[axis], None
    end, parts = constant(0), []
    for i in range(len(op.inputs)):
        part = given(op, i)
        start, end = end, end + size_of(part.shape[axis])
        least = low.space.bound(place, False)
        if least is not None and low.space.certain(least - end):
            continue  # the index is in a later part
        parts.append((part, start, end))
        if low.space.below(place, end):
            break
    for part, start, end in reversed(parts):
        inner = list(index)
        inner[axis] = low.space.clamped(place - start, size_of(part.shape[axis]))
        one = low.element(part, inner)
        if element is None:
            element = one
        else:
            inside = low.scalars.truth("lt", low.scalars.index(place), low.scalars.index(end))
            element = low.scalars.choice(inside, one, element)
    if element is None:
        raise Unsupported("a Concat without elements")
    return element


def concat_pieces(low: Lowering, op: Op) -> None:
    """Append loops that copy the parts of a Concat into the output. Parts of one shape share loops, because they
    are often computed from the same values.
    """
    axis = op["axis"] % len(op.outputs[0].shape)
    buffer = low.new_buffer(op.outputs[0])
    starts = [constant(0)]
    parts = [given(op, i) for i in range(len(op.inputs))]
    for part in parts:
        starts.append(starts[-1] + size_of(part.shape[axis]))
    groups = [list(group) for _, group in groupby(zip(parts, starts), key=lambda piece: piece[0].shape)]
    most = 1 if low.by_element else _MAX_TOGETHER
    for pieces in [group[i : i + most] for group in groups for i in range(0, len(group), most)]:

        def store(index: Index, pieces: Sequence[tuple[Value, Expression]] = pieces) -> list[Statement]:
            there = [[*index[:axis], index[axis] + start, *index[axis + 1 :]] for _, start in pieces]
            values = [low.element(part, index) for part, _ in pieces]
            return [Store(buffer, buffer.offset(at), value) for at, value in zip(there, values)]

        low.fill(sizes_of(pieces[0][0]), store)


@elements("Pad")
def _pad(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    x, mode = given(op), op["mode"]
    padding = padding_of(op)
    if padding is None:
        raise Unsupported("a Pad whose amounts are computed")
    source_places, inside = [], low.scalars.const(True, BOOL)
    zero = low.scalars.const(0, INT)
    for i, before, after, size in zip(index, padding.begins, padding.ends, sizes_of(x)):
        place = i - constant(before)
        if mode == "constant":
            ends = [("ge", zero)] * (before > 0) + [("lt", low.scalars.index(size))] * (after > 0)
            for comparison, end in ends:
                here = low.scalars.truth(comparison, low.scalars.index(place), end)
                inside = low.scalars.truth("and", inside, here)
        source_places.append(place if before <= 0 and after <= 0 else _source(low.space, place, size, mode))
    one = low.element(x, source_places)
    return low.scalars.choice(inside, one, low.scalars.const(padding.value, one.dtype))


def _source(space: Space, place: Expression, size: Expression, mode: str) -> Expression:
    """Return the element that a padded element repeats."""
    if mode in ("constant", "edge"):
        return space.clamped(place, size)
    if mode == "wrap":
        return place - size * (place // size)
    if mode != "reflect":
        raise Unsupported(f"the mode '{mode}'")
    last = size - constant(1)
    if size.constant == 1:
        return constant(0)
    period = last * constant(2)
    folded = place - period * (place // period)
    return extremum("min", folded, period - folded)


@elements("Gather")
def _gather(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    x, indices = given(op), given(op, 1)
    axis = op["axis"] % len(x.shape)
    rank = len(indices.shape)
    size = size_of(x.shape[axis])
    place = position(low, indices, index[axis : axis + rank], size)
    element = low.element(x, [*index[:axis], place, *index[axis + rank :]])
    checks = behind(place.symbols, low.scalars.data) if size.constant == 1 else ()
    for check in checks:  # an index that can only be 0 may be left out of the position, but must still be checked
        inside = low.scalars.call("ge", BOOL, check, low.scalars.const(0, INT))
        element = low.scalars.call("where", element.dtype, inside, element, low.scalars.const(0, element.dtype))
    return element


def position(low: Lowering, indices: Value, index: Index, size: Expression) -> Expression:
    """Return the element of an index array at `index`, as an index into an axis of this size.

    An index that is not known to be in range is checked when the loops run.
    """
    element, const = low.element(indices, index), indices.const
    if element.op == "load" and is_checked(indices, low.graph.producers):
        return low.scalars.named(element, size)
    limit = size.constant if const is not None and elements_of(const) is None else None
    if const is not None and limit is not None and const.size and const.min() >= 0 and const.max() < limit:
        return low.scalars.named(low.scalars.cast(element, INT), size)
    return low.scalars.position(element, size)


@elements("Inside")
def _inside(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    """Return a checked index as an expression, or as the symbol of the scalar that holds it."""
    return low.scalars.index(low.scalars.position(low.element(given(op), index), op["size"]))


@elements("GatherElements")
def _gather_elements(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    return low.element(given(op), _replaced(low, op, index))


def _replaced(low: Lowering, op: Op, index: Index) -> Index:
    """Return an index in which an array of indices replaces that of one axis."""
    shape = sizes_of(given(op))
    axis = op["axis"] % len(shape)
    return [*index[:axis], position(low, given(op, 1), index, shape[axis]), *index[axis + 1 :]]


@elements("GatherND")
def _gather_nd(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    batch = int(op["batch_dims"])
    return low.element(given(op), [*index[:batch], *_selected(low, op, index, batch)])


def _selected(low: Lowering, op: Op, index: Index, batch: int = 0) -> Index:
    """Return the index after `batch` axes that the rows of an array of indices select."""
    x, indices = given(op), given(op, 1)
    outer, depth = len(indices.shape) - 1, indices.shape[-1]
    if type(depth) is not int:
        raise Unsupported(f"a {op.op} whose depth is open")
    sizes = sizes_of(x)[batch : batch + depth]
    places = [position(low, indices, [*index[:outer], constant(k)], size) for k, size in enumerate(sizes)]
    return [*places, *index[outer:]]


@elements("Range")
def _range(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    start, step = (low.element(given(op, i), []) for i in (0, 2))
    kind = op.outputs[0].dtype
    count = low.scalars.cast(low.scalars.index(index[0]), kind)
    return low.scalars.call("add", kind, start, low.scalars.call("mul", kind, count, step))


@elements("ConstantOfShape")
def _constant_of_shape(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    value = np.asarray(np.float32(0) if op["value"] is None else op["value"]).reshape(-1)[0]
    return low.scalars.const(value, op.outputs[0].dtype)


@elements("Shape")
def _shape(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    shape = sizes_of(given(op))[slice(op["start"], op["end"])]
    if index[0].constant is None and len(shape) > 1:
        raise Unsupported("a shape whose elements are selected by a computed index")
    return low.scalars.index(shape[index[0].constant or 0])


@elements("Trilu")
def _triangle(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    k = [constant(0)] if op.input(1) is None else low.number(given(op, 1))
    if k is None:
        raise Unsupported("a Trilu whose diagonal is computed")
    x = low.element(given(op), index)
    sides = low.scalars.index(index[-1] - index[-2]), low.scalars.index(k[0])
    inside = low.scalars.truth("ge" if op["upper"] else "le", *sides)
    return low.scalars.choice(inside, x, low.scalars.const(0, x.dtype))


@nests("ScatterElements", "ScatterND")
def _scatter(low: Lowering, op: Op) -> None:
    buffer = low.new_buffer(op.outputs[0])
    low.states.add(buffer)
    copies(low, given(op), buffer)
    write_elements(low, op, buffer)


def write_elements(low: Lowering, op: Op, buffer: Buffer) -> None:
    """Append the writes of a scatter to a buffer with the elements of its first input, in their order."""
    x, updates, shape = given(op), given(op, 2), sizes_of(given(op))
    how = "" if op["reduction"] == "none" else op["reduction"]
    data = buffer if buffer.shape == shape else Buffer("", x.dtype, shape, "")

    def store(index: Index) -> list[Statement]:
        place = _selected(low, op, index) if op.op == "ScatterND" else _replaced(low, op, index)
        offset = data.offset(place)
        return [Store(buffer, offset, low.scalars.cast(low.element(updates, index), buffer.dtype), how)]

    start = len(low.body)
    low.fill(sizes_of(updates), store)  # in sequential loops: several iterations may write the same element
    for loop in low.body[start:]:
        if isinstance(loop, Loop):
            loop.body = nested(loop.more, loop.body, parallel=False)
            loop.parallel, loop.more = False, ()


@nests("Compress", "NonZero")
def _select(low: Lowering, op: Op) -> None:
    """Append a loop that stores the selected rows, or their indices, one after the other, and counts them."""
    x, shape, compresses = given(op), sizes_of(given(op)), op.op == "Compress"
    mask, axis = (given(op, 1), op["axis"]) if compresses else (x, 0)
    axis = None if axis is None else axis % len(shape)
    if axis is None or any(d.constant != 1 for d in shape[:axis]) or size_of(mask.shape[0]) != shape[axis]:
        raise Unsupported("a Compress along an axis that is not the first one")
    if len(mask.shape) != 1:
        raise Unsupported("a NonZero of several axes")
    count, rest = shape[axis], shape[axis + 1 :]
    buffer, counter = low.new_buffer(op.outputs[0]), Local(low.name("count"), INT)
    (name, k), rows = low.variable(count), [low.variable(size) for size in rest]
    place, index = low.scalars.named(low.scalars.local(counter), count), [i for _, i in rows]
    lead = [constant(0)] * axis
    element = low.element(x, [*lead, k, *index]) if compresses else low.scalars.index(k)
    store = Store(buffer, Buffer("", buffer.dtype, (count, *rest), "").offset([place, *index]), element)
    loops = nested([(n, size) for (n, _), size in zip(rows, rest)], [store], parallel=False)
    body: list[Statement] = [*loops, Set(counter, low.scalars.const(1, INT), "add")]
    body = [If(low.scalars.cast(low.element(mask, [k]), BOOL), body)]
    low.flush([Set(counter, low.scalars.const(0, INT), "="), *nested([(name, count)], body, parallel=False)])
    for d in op.outputs[0].shape:
        if isinstance(d, Dim):
            low.counts.setdefault(d.base.name, (counter, d.base.maximum))
