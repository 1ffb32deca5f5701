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
from anylayer.loops.lowering import INLINED, Index, Lowering, Unsupported, entering, given, nests, sizes_of
from anylayer.loops.nests import join_groups
from anylayer.loops.scalars import divisions

_HOW = {"ReduceSum": "add", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "mul", "MatMul": "add"}


class _Domain(NamedTuple):
    """The elements that an operator combines: their numbers along each axis, in the order of the loops; whether
    the result keeps the axis; and a function that returns the element at an index.
    """

    sizes: Sequence[Expression]
    in_result: Sequence[bool]
    element: Callable[[Index], Scalar]


def _domain(low: Lowering, op: Op) -> _Domain:
    if op.op == "MatMul":
        return _products(low, op)
    x, axes = given(op), reduced_axes(op)
    if axes is None and not op["noop_with_empty_axes"]:
        raise Unsupported("a reduction whose axes are computed")
    return _Domain(sizes_of(x), [a not in (axes or ()) for a in range(len(x.shape))], partial(low.element, x))


def _products(low: Lowering, op: Op) -> _Domain:
    """Return the products that a MatMul sums: one axis more than its result has, before the columns."""
    a, b, y = given(op), given(op, 1), op.outputs[0]
    left, right = len(a.shape) > 1, len(b.shape) > 1
    at = len(y.shape) - right
    batch, shape = y.shape[: at - left], sizes_of(y)

    def element(index: Index) -> Scalar:
        k, second = index[at], [*index[: len(batch)], *index[at:]]
        x = low.operand(a, index[: at + 1], [*batch, *a.shape[-2:]]) if left else low.element(a, [k])
        z = low.operand(b, second, [*batch, *b.shape[-2:]]) if right else low.element(b, [k])
        return low.scalars.call("mul", y.dtype, x, z)

    sizes = [*shape[:at], sizes_of(a)[-1], *shape[at:]]
    return _Domain(sizes, [axis != at for axis in range(len(sizes))], element)


def _output_index(op: Op, in_result: Sequence[bool], index: Index) -> Index:
    """Return the index in an operator's output that corresponds to an index in what it combines."""
    whole = len(op.outputs[0].shape) == len(index)
    return [i if keeps else constant(0) for i, keeps in zip(index, in_result) if keeps or whole]


@entering(INLINED, *_HOW)
def _combine_inline(low: Lowering, op: Op, index: Index) -> Scalar:
    """Add loops that combine the elements for an element of the output, and return it."""
    sizes, in_result, element = _domain(low, op)
    how, dtype = _HOW[op.op], op.outputs[0].dtype

    def loops() -> tuple[Local, list[Statement]]:
        local, start = _accumulator(low, how, dtype)
        nests, inside = low.loops_over([[a] for a, keeps in enumerate(in_result) if not keeps], sizes)
        outer = iter([i for i, keeps in zip(index, in_result) if keeps] if len(index) == len(in_result) else index)
        place = [next(outer) if keeps else i for i, keeps in zip(inside, in_result)]
        before, value = low.scoped([nest[0][0] for nest in nests], lambda: element(place))
        inner = [*before, Set(local, low.scalars.cast(value, local.dtype), how)]
        return local, [start, *nested([nest[0] for nest in nests], inner, parallel=False)]

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


@nests(*_HOW)
def _combine(low: Lowering, op: Op) -> None:
    """Append loops that combine elements into those of the output.

    Where the result keeps the innermost axis, the elements of the buffer are combined in place, so that memory is
    read in order. Otherwise a local collects each element, in double precision for sums of floats. Adjacent axes
    that are both kept, or both combined, are collapsed into one loop if that needs no further integer division.
    """
    domain, how, buffer = _domain(low, op), _HOW[op.op], low.new_buffer(op.outputs[0])
    in_result = domain.in_result
    groups = [[a] for a, size in enumerate(domain.sizes) if size.constant != 1]
    body_of = partial(_body, low, op, buffer, domain)
    best = body_of(groups)
    if not low.by_element:
        best, groups = join_groups(best, groups, body_of, lambda a, b: in_result[a] == in_result[b])
    _, loops, outer, inner, value, place = best
    order = [group[0] for group in groups]
    result_axes = [a for a in order if in_result[a]]
    summed = [a for a in order if not in_result[a]]
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
    """The innermost body of `_combine`: the number of integer divisions; the loop of each group of axes, by its
    first axis; the statements that precede all combined elements, and those that precede each of them; the
    element; and its position in the buffer.
    """

    divisions: int
    loops: dict[int, tuple[str, Expression]]
    outer: list[Statement]
    inner: list[Statement]
    value: Scalar
    place: Expression


def _body(low: Lowering, op: Op, buffer: Buffer, domain: _Domain, groups: Sequence[Sequence[int]]) -> _Body:
    """Return the body of loops over groups of axes; the axes of a group share a loop."""
    nests, index = low.loops_over(groups, domain.sizes)
    loops = {group[0]: nest[0] for group, nest in zip(groups, nests)}
    summed = [loops[g[0]][0] for g in groups if not domain.in_result[g[0]]]
    others = [name for name, _ in loops.values() if name not in summed]
    outer, (inner, value) = low.scoped(others, lambda: low.scoped(summed, lambda: domain.element(index)))
    place = buffer.offset(_output_index(op, domain.in_result, index))
    count = divisions([*outer, *inner, Store(buffer, place, value)], low.scalars)
    return _Body(count, loops, outer, inner, value, place)


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
    low.set_limit(places, sizes_of(x)[axis].constant or 0)
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
    """Append loops that compute the rank of each element: the number of elements before it in sorted order."""
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
    place = buffer.offset(_output_index(op, [a != axis for a in range(len(shape))], index))
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
