"""Operators that combine elements: reductions, matrix products, running sums, sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.expressions import Expression, constant
from anylayer.graph.facts import reduced_axes
from anylayer.loops.ir import INT, Buffer, If, Local, Loop, Scalar, Set, Sort, Statement, Store, nested, product
from anylayer.loops.lowering import (
    INLINED,
    Index,
    Lowering,
    Unsupported,
    entering,
    given,
    joined,
    nests,
    size_of,
    sizes_of,
)
from anylayer.loops.scalars import divisions

_HOW = {"ReduceSum": "add", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "mul"}


@nests(*_HOW)
def _reduce(low: Lowering, op: Op) -> None:
    x, y, axes = given(op), op.outputs[0], _axes(op)
    buffer = low.new_buffer(y)
    domain = [(size_of(d), a not in axes) for a, d in enumerate(x.shape)]

    def offset(index: Index) -> Expression:
        return buffer.offset(_output_index(op, axes, index))

    accumulate(low, buffer, domain, offset, partial(low.element, x), _HOW[op.op])


def _axes(op: Op) -> Sequence[int]:
    """Return the axes of a reduction."""
    axes = reduced_axes(op)
    if axes is None:
        if not op["noop_with_empty_axes"]:
            raise Unsupported("a reduction whose axes are computed")
        return []
    return axes


def _output_index(op: Op, axes: Sequence[int], index: Index) -> Index:
    """Return the index in a reduction's output that corresponds to an index in its input."""
    if len(op.outputs[0].shape) == len(index):
        return [constant(0) if a in axes else i for a, i in enumerate(index)]
    return [i for a, i in enumerate(index) if a not in axes]


@entering(INLINED, *_HOW)
def _inlined_reduce(low: Lowering, op: Op, index: Index) -> Scalar:
    """Add loops that compute an element of a reduction, and return the element."""
    x, axes = given(op), _axes(op)
    whole = len(op.outputs[0].shape) == len(x.shape)
    indices = iter([i for a, i in enumerate(index) if not whole or a not in axes])
    full = [None if a in axes else next(indices) for a in range(len(x.shape))]

    def element(summed: Index) -> Scalar:
        inner = iter(summed)
        return low.element(x, [next(inner) if i is None else i for i in full])

    return combined(low, index, [size_of(x.shape[a]) for a in sorted(axes)], element, _HOW[op.op], x.dtype)


def combined(
    low: Lowering,
    index: Index,
    extents: Sequence[Expression],
    element: Callable[[Index], Scalar],
    how: str,
    dtype: np.dtype[Any],
) -> Scalar:
    """Add loops that combine all elements of a domain, and return the result."""

    def loops() -> tuple[Local, list[Statement]]:
        local, start = _accumulator(low, how, dtype)
        variables = [low.variable(extent) for extent in extents]
        before, value = low.scoped([name for name, _ in variables], lambda: element([i for _, i in variables]))
        inner = [*before, Set(local, low.scalars.cast(value, local.dtype), how)]
        names = [(name, extent) for (name, _), extent in zip(variables, extents)]
        return local, [start, *nested(names, inner, parallel=False)]

    return low.scalars.cast(low.scalars.local(low.inline(index, loops)), dtype)


def _accumulator(low: Lowering, how: str, dtype: np.dtype[Any]) -> tuple[Local, Set]:
    """Return a local that accumulates elements, and its declaration. It is a float64 for sums of floats."""
    wide = np.dtype(np.float64) if how == "add" and dtype.kind == "f" else dtype
    local = Local(low.name("sum" if how == "add" else "result"), wide)
    return local, Set(local, low.scalars.cast(low.scalars.const(_start(how, dtype), dtype), wide), "=")


def _start(how: str, dtype: np.dtype[Any]) -> Any:
    """Return the initial value of a reduction."""
    if how in ("add", "mul"):
        return 0 if how == "add" else 1
    if dtype.kind == "b":
        return how == "min"
    if dtype.kind == "f":
        return -np.inf if how == "max" else np.inf
    return np.iinfo(dtype).min if how == "max" else np.iinfo(dtype).max


def accumulate(
    low: Lowering,
    buffer: Buffer,
    domain: Sequence[tuple[Expression, bool]],
    offset: Callable[[Index], Expression],
    element: Callable[[Index], Scalar],
    how: str,
) -> None:
    """Append loops that combine the elements of a domain into the elements of a buffer. domain: (extent, whether
    the result keeps the axis) for each axis, in the order of the loops. offset: returns the position in the buffer
    for an index of the kept axes.

    Where the innermost axis is kept, the elements of the buffer are combined in place, so that memory is read in
    order. Otherwise a local collects each element, in double precision for sums of floats. Adjacent axes that are
    both kept, or both combined, are collapsed into one loop if that needs no further integer division.
    """
    groups = [[a] for a, (extent, _) in enumerate(domain) if extent.constant != 1]
    body_of = partial(_body, low, domain, offset, element)
    best = body_of(groups)
    if not low.by_element:
        best, groups = joined(best, groups, body_of, lambda a, b: domain[a][1] == domain[b][1])
    _, loops, outer, inner, value, place = best
    order = [group[0] for group in groups]
    result_axes = [a for a in order if domain[a][1]]
    summed = [a for a in order if not domain[a][1]]
    if summed and order[-1] in result_axes and not low.by_element:
        prefix = [a for a in order if a < summed[0]]
        inside = [a for a in order if a not in prefix]
        first = low.scalars.const(_start(how, buffer.dtype), buffer.dtype)
        body: list[Statement] = [
            *nested([loops[a] for a in inside if a in result_axes], [Store(buffer, place, first)], parallel=False),
            *nested([loops[a] for a in inside], [Store(buffer, place, value, how)], parallel=False),
        ]
        low.flush(nested([loops[a] for a in prefix], body))
        return
    local, start = _accumulator(low, how, buffer.dtype)
    add = Set(local, low.scalars.cast(value, local.dtype), how)
    body = [
        *outer,
        start,
        *nested([loops[a] for a in summed], [*inner, add], parallel=False),
        Store(buffer, place, low.scalars.cast(low.scalars.local(local), buffer.dtype)),
    ]
    low.flush(low.shared([loops[a] for a in result_axes], body))


class _Body(NamedTuple):
    """The innermost body of `accumulate`: the number of integer divisions; the loop of each group of axes, by its
    first axis; the statements that precede all combined elements, and those that precede each of them; the
    element; and its position in the buffer.
    """

    divisions: int
    loops: dict[int, tuple[str, Expression]]
    outer: list[Statement]
    inner: list[Statement]
    value: Scalar
    place: Expression


def _body(
    low: Lowering,
    domain: Sequence[tuple[Expression, bool]],
    offset: Callable[[Index], Expression],
    element: Callable[[Index], Scalar],
    groups: Sequence[Sequence[int]],
) -> _Body:
    """Return the body of loops over groups of axes; the axes of a group share a loop."""
    nests, index = low.loops_over(groups, [size for size, _ in domain])
    loops = {group[0]: nest[0] for group, nest in zip(groups, nests)}
    result_loops, summed = (
        [loops[g[0]][0] for g in groups if domain[g[0]][1] == which] for which in (True, False)
    )
    outer, (inner, value) = low.scoped(result_loops, lambda: low.scoped(summed, lambda: element(index)))
    place = offset(index)
    count = divisions([*outer, *inner, Store(Buffer("", value.dtype, (), ""), place, value)], low.scalars)
    return _Body(count, loops, outer, inner, value, place)


@nests("MatMul")
def _matmul(low: Lowering, op: Op) -> None:
    a, b, y = given(op), given(op, 1), op.outputs[0]
    left, right = len(a.shape) > 1, len(b.shape) > 1
    batch = len(y.shape) - left - right
    shape, inner = sizes_of(y), size_of(a.shape[-1])
    buffer = low.new_buffer(y)
    domain = [(d, True) for d in shape[:batch]]
    domain += [(shape[batch], True)] * left + [(inner, False)] + [(shape[-1], True)] * right

    def parts(index: Index) -> tuple[Index, Expression]:
        return [*index[: batch + left], *index[len(index) - right :]], index[batch + left]

    accumulate(
        low,
        buffer,
        domain,
        lambda index: buffer.offset(parts(index)[0]),
        lambda index: _product(low, op, *parts(index)),
        "add",
    )


def _product(low: Lowering, op: Op, index: Index, k: Expression) -> Scalar:
    """Return the k-th product of an element of a MatMul."""
    a, b = given(op), given(op, 1)
    left, right = len(a.shape) > 1, len(b.shape) > 1
    outer = index[: len(index) - left - right]
    batch = op.outputs[0].shape[: len(outer)]
    x = low.operand(a, [*outer, index[len(outer)], k], [*batch, *a.shape[-2:]]) if left else low.element(a, [k])
    z = low.operand(b, [*outer, k, index[-1]], [*batch, *b.shape[-2:]]) if right else low.element(b, [k])
    return low.scalars.call("mul", op.outputs[0].dtype, x, z)


@entering(INLINED, "MatMul")
def _inlined_matmul(low: Lowering, op: Op, index: Index) -> Scalar:
    """Add a loop that computes an element of a matrix product, and return the element."""
    extent, dtype = size_of(given(op).shape[-1]), op.outputs[0].dtype
    return combined(low, index, [extent], lambda k: _product(low, op, index, k[0]), "add", dtype)


@nests("CumSum")
def _running_sum(low: Lowering, op: Op) -> None:
    x, axes = given(op), low.number(op.input(1))
    if axes is None or axes[0].constant is None:
        raise Unsupported("a CumSum whose axis is computed")
    axis = axes[0].constant % len(x.shape)
    buffer = low.new_buffer(op.outputs[0])
    shape = sizes_of(x)
    loops, index = _outer(low, shape, axis)
    name, k = low.variable(shape[axis])
    index[axis] = shape[axis] - constant(1) - k if op["reverse"] else k
    local, start = _accumulator(low, "add", x.dtype)
    add = Set(local, low.scalars.cast(low.element(x, index), local.dtype), "add")
    store = Store(buffer, buffer.offset(index), low.scalars.cast(low.scalars.local(local), x.dtype))
    inner: list[Statement] = [store, add] if op["exclusive"] else [add, store]
    low.flush(low.shared(loops, [start, *nested([(name, shape[axis])], inner, parallel=False)]))


def _outer(low: Lowering, shape: Sequence[Expression], axis: int) -> tuple[list[tuple[str, Expression]], Index]:
    """Return loops over all axes but one, and the index with 0 at that axis."""
    loops, index = [], [constant(0)] * len(shape)
    for a, size in enumerate(shape):
        if a != axis:
            name, index[a] = low.variable(size)
            loops.append((name, size))
    return loops, index


def _before(low: Lowering, a: Scalar, b: Scalar, largest: bool) -> Scalar:
    """Return whether `a` comes before `b` in sorted order. NaN is larger than any number."""
    less = low.scalars.truth("gt" if largest else "lt", a, b)
    if a.dtype.kind != "f":
        return less
    first, second = (a, b) if largest else (b, a)
    odd = low.scalars.truth("and", low.scalars.truth("ne", first, first), low.scalars.truth("eq", second, second))
    return low.scalars.truth("or", less, odd)


@nests("TopK")
def _top_k(low: Lowering, op: Op) -> None:
    """Append loops that sort the rows along an axis."""
    x, count = given(op), low.number(op.input(1))
    if count is None:
        raise Unsupported("a TopK whose count is computed")
    axis, largest = op["axis"] % len(x.shape), bool(op["largest"])
    values, places = (low.new_buffer(v) for v in op.outputs)
    low.set_limit(places, size_of(x.shape[axis]).constant or 0)
    if low.by_element:
        _rank_elements(low, x, count[0], axis, largest, values, places)
        return
    shape = sizes_of(x)
    source = in_memory(low, x)
    loops, index = _outer(low, shape, axis)
    start, target = source.offset(index), values.offset(index)
    sort = Sort(source, start, product(shape[axis + 1 :]), shape[axis], values, places, target, count[0], largest)
    low.flush(nested(loops, [sort], serial=0))


def _rank_elements(
    low: Lowering, x: Value, count: Expression, axis: int, largest: bool, values: Buffer, indices: Buffer
) -> None:
    """Append loops that compute the rank of each element: the number of elements that precede it in sorted
    order.
    """
    shape = sizes_of(x)
    loops, index = _outer(low, shape, axis)
    (outer, i), (inner, j) = low.variable(shape[axis]), low.variable(shape[axis])
    index[axis] = i
    mine = low.element(x, index)
    other = low.element(x, [*index[:axis], j, *index[axis + 1 :]])
    tied = low.scalars.truth(
        "and",
        low.scalars.truth("lt", low.scalars.index(j), low.scalars.index(i)),
        low.scalars.truth("not", _before(low, mine, other, largest)),
    )
    first = low.scalars.truth("or", _before(low, other, mine, largest), tied)
    rank = Local(low.name("rank"), INT)
    one, place = low.scalars.const(1, INT), low.scalars.local(rank)
    index[axis] = low.scalars.named(place, count)
    body: list[Statement] = [
        Set(rank, low.scalars.const(0, INT), "="),
        *nested([(inner, shape[axis])], [If(first, [Set(rank, one, "add")])], parallel=False),
        If(
            low.scalars.truth("lt", place, low.scalars.index(count)),
            [
                Store(values, values.offset(index), mine),
                Store(indices, indices.offset(index), low.scalars.index(i)),
            ],
        ),
    ]
    low.flush(low.shared([*loops, (outer, shape[axis])], body))


@nests("ArgMax", "ArgMin")
def _arg(low: Lowering, op: Op) -> None:
    x, y = given(op), op.outputs[0]
    axis, last = op["axis"] % len(x.shape), bool(op["select_last_index"])
    shape = sizes_of(x)
    buffer = low.new_buffer(y)
    low.set_limit(buffer, shape[axis].constant or 0)
    loops, index = _outer(low, shape, axis)
    place = buffer.offset(_output_index(op, [axis], index))
    start = low.element(x, index)
    name, k = low.variable(shape[axis])
    index[axis] = k
    value = low.element(x, index)
    best, at = Local(low.name("best"), x.dtype), Local(low.name("place"), INT)
    if low.by_element or last or shape[axis].constant == 1:
        taken = _before(low, value, low.scalars.local(best), op.op == "ArgMax")
        if last:
            taken = low.scalars.truth("not", _before(low, low.scalars.local(best), value, op.op == "ArgMax"))
        search: Statement = If(taken, [Set(best, value, ""), Set(at, low.scalars.index(k), "")])
        body = [Set(best, start, "="), *nested([(name, shape[axis])], [search], parallel=False)]
    else:
        body = [Loop(name, shape[axis], [Set(at, value, op.op)])]
    body = [Set(at, low.scalars.const(0, INT), "="), *body, Store(buffer, place, low.scalars.local(at))]
    low.flush(low.shared(loops, body))


def in_memory(low: Lowering, value: Value) -> Buffer:
    """Return a buffer with a value. Append loops that write the value to a temporary one if it has none."""
    buffer = low.buffers.get(value)
    if buffer is None:
        buffer = low.temporary(value)
        copies(low, value, buffer)
    return buffer


def copies(low: Lowering, value: Value, buffer: Buffer) -> None:
    """Append loops that write a value to a buffer."""
    low.fill(sizes_of(value), lambda index: [low.copy(value, buffer, index)])


def row_copies(low: Lowering, value: Value, buffer: Buffer, axes: Sequence[int]) -> None:
    """Append a parallel loop that writes a value to a buffer, with sequential loops over some axes inside. Sums
    over these axes are computed before the sequential loops.
    """
    index: Index = [constant(0)] * len(value.shape)
    loops: tuple[list[tuple[str, Expression]], list[tuple[str, Expression]]] = [], []
    for a, size in enumerate(sizes_of(value)):
        if size.constant != 1:
            name, index[a] = low.variable(size)
            loops[a in axes].append((name, size))

    def store() -> list[Statement]:
        return [Store(buffer, buffer.offset(index), low.element(value, index))]

    names = [[name for name, _ in one] for one in loops]
    outer, (before, inner) = low.scoped(names[0], lambda: low.scoped(names[1], store))
    low.flush(low.shared(loops[0], [*outer, *nested(loops[1], [*before, *inner], parallel=False)]))
