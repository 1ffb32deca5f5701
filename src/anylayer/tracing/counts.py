"""Sizes that depend on data: of x[mask], of the positions of the true elements of a mask, and of x[:k].

They are recorded as ONNX's Compress, NonZero and Range. Their size is a symbol: see graph.guards.SymbolicTrace.
A node is traced with such symbols in a second attempt, because only some layers select.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anylayer import tracing
from anylayer.graph.expressions import Expression, constant, symbol
from anylayer.graph.guards import RELATIONS, Count, Guard, SelectionKey, SymbolicTrace, current_trace
from anylayer.graph.intervals import Intervals
from anylayer.graph.ir import Op, Value
from anylayer.graph.operators import COMPARISONS, NEEDS_ELEMENTS, POSITIONS, SELECTS, SIZED_BY_DATA, VIEWS
from anylayer.graph.place import refusal, user_frame
from anylayer.graph.sized import elements_of
from anylayer.graph.sizes import size_of
from anylayer.graph.symbolic import Size, extreme, is_symbolic, new_size, same, with_known_extrema
from anylayer.network import MAX_VALUES, Array, DType
from anylayer.tracing.array import TracedArray
from anylayer.tracing.decisions import Decision, Run, current_run
from anylayer.tracing.dtypes import BOOL, I8
from anylayer.tracing.primitives import arange, as_array, cast, is_constant, reshape
from anylayer.tracing.python_numbers import Scalar, as_arrays
from anylayer.tracing.record import SizeDependsOnData, record, running_graph
from anylayer.tracing.size_arithmetic import size_list

_ONNX_COMPARISONS = {
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
}  # fmt: skip


def count_of(values: Any, most: Any) -> Any:
    """Return the number of elements that depends on `values`, from 0 to `most`, as a size.

    Each value of the graph has one such size: what one mask selects from several arrays has the same size. Raises
    SizeDependsOnData outside a trace with symbolic sizes.
    """
    trace = current_trace.get()
    if trace is None or trace.turn is None:
        raise refusal(
            "the number of elements that a mask selects is known only when the network runs, which cannot be "
            "recorded here; use np.where(mask, a, b)",
            kind=SizeDependsOnData,
        )
    if not is_symbolic(most) and most == 1:
        raise refusal("a selection from a single element cannot be recorded; use np.where(mask, a, b)")
    counts = running_graph().counts
    key = values._value
    if key not in counts:
        at = len(counts) + 1
        earlier = sorted(s.number for s in trace.empty if s.number < at)
        example = trace.count(SelectionKey(at, running_graph().prefix, tuple(earlier)), most)
        if example is None:
            need_possible(values)
        counts[key] = 0 if example is None else new_size(example[1], symbol(example[0]))
    return counts[key]


def as_bound(k: Any, size: Any) -> Any:
    """Return a bound of a slice of an axis: one that depends on data as a size from 0 to that of the axis."""
    if type(k) is not TracedArray:
        return k
    sizes = size_list(k)
    if sizes is not None:
        return sizes[0]
    if k.ndim or k.dtype.kind not in "iu":
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    length = as_length(k)
    if length is not None:
        return extreme("min", length, size)
    place, end = cast(k._resolved(), I8), as_array(size, I8)
    low, high = Intervals(k._graph.producers).of(k._value)
    if low >= 0 and not is_symbolic(size) and high <= size:  # also the size of np.arange(k)
        return counted_size(place, size)
    return counted_size(np.clip(np.where(place < 0, place + end, place), 0, end), size)


def as_length(k: Any) -> Any:
    """Return the number of true elements of a mask, such as mask.sum(), as a size, and None for another array."""
    if type(k) is not TracedArray or k.ndim or k.dtype.kind not in "iu":
        return None
    ops, mask = _reduced_mask(k, "ReduceSum")
    if mask is None:
        return None
    most = size_of(mask.shape)
    exact = all(_holds(o.outputs[0].dtype, most) for o in ops)
    return counted_size(k, most, mask) if exact else None


def _reduced_mask(k: TracedArray, *reductions: str) -> tuple[list[Op], Value | None]:
    """Return the operators that compute a number or a truth from one reduction of a mask, the last one first, and
    the mask. The others convert, negate or compare with a constant. The mask is None for another array.
    """
    producers = k._graph.producers
    value: Value | None = k._value
    ops: list[Op] = []
    while value is not None and (o := producers.get(value)) is not None:
        ops.append(o)
        sources = [v for v in o.inputs if v is not None and v.const is None]
        if len(sources) != 1 or o.domain:
            break
        value = sources[0]
        if o.op in reductions:
            cause = producers.get(value)
            mask = cause.inputs[0] if cause is not None and cause.op == "Cast" else None
            return ops, mask if mask is not None and mask.dtype == BOOL else None
        if not (o.op in ("Cast", "Not") or o in VIEWS or o in COMPARISONS):
            break
    return ops, None


def selects_something(x: TracedArray, run: Run) -> bool | None:
    """Return the answer to a question that only asks whether a mask selects something, as it is for a size: to
    `mask.sum() == 0` or `mask.any()`. Return None for another question, for the condition of a `while` and in
    recorded ifs and loops, and where the trace has no such sizes.
    """
    trace, frame = current_trace.get(), user_frame()
    if trace is None or trace.turn is None or run.loops or run.sides or frame is None:
        return None
    answers = tracing.checked.questions()
    if answers.how != "sizes" or tracing.loops.is_in_while(frame):
        return None
    if run.answer_of(run.condition_of(x)) is not None:
        return None
    mask, nothing = _asks_for_nothing(x)
    if mask is None or same(size_of(mask.shape), 1):
        return None
    answers.asked = True
    n = count_of(TracedArray(x._graph, mask), size_of(mask.shape))
    if is_symbolic(n):
        if not (trace.empty or trace.filled):
            answers.names |= n.expression.symbols
            answers.need_few(answers.names)
        _least(n, TracedArray(x._graph, mask))
    return nothing if n == 0 else not nothing


def _asks_for_nothing(x: TracedArray) -> tuple[Value | None, bool]:
    """Return the mask of which a question only asks whether it selects something, and its answer where it does
    not. The mask is None for another question.
    """
    ops, mask = _reduced_mask(x, "ReduceSum", "ReduceMax")
    most = 0 if mask is None else size_of(mask.shape)
    sums = [o.outputs[0].dtype for o in ops if mask is not None and o.outputs[0].dtype != BOOL]
    if mask is None or (ops[-1].op == "ReduceSum" and not all(_holds(d, most) for d in sums)):
        return None, False
    nothing, *some = (_answer(ops, number) for number in (0, 1, MAX_VALUES))
    return mask if some == [not nothing] * 2 else None, nothing


def _certain(mask: Array) -> Array:
    """Return a mask in place of one that selects something where the side of an if is taken that is recorded now:
    it selects its first element where it would select nothing.
    """
    run, trace = current_run.get(), current_trace.get()
    if run is None or trace is None or type(mask) is not TracedArray or mask.ndim != 1:
        return mask
    size = mask.shape[0]
    is_empty = is_symbolic(size) and not trace.not_negative(size.expression - constant(1))
    if is_empty or not _answered(mask, run.sides):
        return mask
    result: Array = mask | ((arange(size) == 0) & ~mask.any())
    need_element(count_of(result, size))
    return result


def need_element(n: object) -> None:
    """Note that the size of a selection is certainly not 0."""
    trace = current_trace.get()
    if trace is not None and type(n) is Size:
        for name in n.expression.symbols:
            trace.ranges[name] = max(1, trace.ranges[name][0]), trace.ranges[name][1]


def _answered(mask: TracedArray, decisions: Iterable[Decision]) -> bool:
    """Return whether one of these answers says that a mask selects something."""
    questions = ((_asks_for_nothing(TracedArray(mask._graph, d.condition)), d.answer) for d in decisions)
    return any(m is mask._value and nothing is not answer for (m, nothing), answer in questions)


def certainly_selects(mask: TracedArray) -> bool:
    """Return whether the code has asked on this path whether a mask selects something, and it does."""
    run, n = current_run.get(), mask._graph.counts.get(mask._value)
    if run is not None and _answered(mask, [*run.taken, *run.sides]):
        return True
    if type(n) is not Size:
        return False
    trace, count = _trace_and_count(n)
    asked = (g for g in trace.guards if g.symbols == n.expression.symbols)
    return count.selected in trace.filled or any(map(trace.asks_for_nothing, asked))


def _answer(ops: Sequence[Op], number: int) -> bool:
    """Return what operators from `_reduced_mask` compute where the mask has a number of true elements."""
    x: Any = number if ops[-1].op == "ReduceSum" else min(number, 1)
    for o in reversed(ops[:-1]):
        if o in COMPARISONS:
            sides = [x if v is None or v.const is None else v.const for v in o.inputs]
            x = _ONNX_COMPARISONS[o.op](*sides)
        elif o.op == "Not":
            x = np.logical_not(x)
        elif o.outputs[0].dtype == BOOL:
            x = x != 0
    return bool(x)


def as_size(k: Any) -> Any:
    """Return an integer that depends on data as a size, and None for anything else.

    It must be the number of true elements of a mask, or lie between 0 and a maximum: min(max(int(x), 0), 100).
    """
    k = as_arrays(k)
    length = as_length(k)
    if length is not None or type(k) is not TracedArray or k.ndim or k.dtype.kind not in "iu":
        return length
    sizes = size_list(k)
    if sizes is not None or k._const() is not None:
        return None if sizes is None else sizes[0]
    low, high = Intervals(k._graph.producers).of(k._value)
    if low < 0 or high > MAX_VALUES:
        raise refusal(
            "a size that depends on data needs a smallest and a largest value that are known; write "
            "min(max(n, 0), 100) with the largest size that can occur"
        )
    return counted_size(cast(k, I8), int(high))


def _holds(dtype: DType, most: Any) -> bool:
    """Return whether integers of `dtype` hold a number of elements up to `most`. 32 bits hold every number."""
    return dtype.kind in "iu" and (dtype.itemsize >= 4 or (not is_symbolic(most) and most <= np.iinfo(dtype).max))


def counted_size(k: Any, most: Any, mask: Value | None = None) -> Any:
    """Return an integer from 0 to `most` that depends on data as a size.

    mask: the mask whose true elements it counts.
    """
    if is_constant(k):  # the bound of a slice of an array without elements
        return int(k)
    n = count_of(k if mask is None else TracedArray(k._graph, mask), most)
    if is_symbolic(n):
        end: Any = cast(k._resolved(), I8)
        least = _least(n, end)
        end = np.maximum(end, least) if least else end
        _selection(record("Range", [np.int64(0), end, np.int64(1)], (n,), I8))
    return n


def need_possible(mask: Any) -> None:
    """Abandon a path on which a mask selects something, in a trace in which it selects nothing."""
    run = current_run.get()
    if run is None or mask.dtype != BOOL:
        return
    n = np.sum(mask)
    nothing, *others = (run.answer_of(x._value) for x in (n == 0, mask.any(), n > 0, n != 0))
    if any(others) or nothing is False:
        run.is_possible = False
        raise ValueError("nothing is selected on a path on which something is selected")


def mask_of_size(n: Any) -> TracedArray | None:
    """Return the mask whose true elements a size counts, or None."""
    graph, e = running_graph(), _exact_size(n)
    masks = (v for v, d in graph.counts.items() if v.dtype == BOOL and is_symbolic(d) and d.expression == e)
    return next((TracedArray(graph, v) for v in masks), None)


def decide_size(a: Scalar, relation: str, b: Scalar) -> bool | None:
    """Return the answer of the running path to a comparison of two numbers, or None where there are no paths."""
    run = current_run.get()
    if run is None:
        return None
    return run.decide(comparison(a, relation, b))


def comparison(a: Scalar, relation: str, b: Scalar) -> Any:
    """Return a comparison of two numbers as an array."""
    dtype = np.float64 if isinstance(a, float) or isinstance(b, float) else I8
    return RELATIONS[relation](as_array(a, dtype), as_array(b, dtype))


def guard_of(a: object, relation: str, b: object) -> Guard | None:
    """Return a comparison of integers as a guard, or None for other numbers."""
    sides = [x.expression if type(x) is Size else constant(x) if type(x) is int else None for x in (a, b)]
    left, right = sides
    return None if left is None or right is None else Guard(left, relation, right)


def shape_at(shape: Sequence[Any], sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """Return a shape for these values of the symbols."""
    return tuple(d.expression.value(sizes) if type(d) is Size else d for d in shape)


def lacking_elements(ops: Iterable[Op], sizes: Mapping[str, int]) -> Iterator[Op]:
    """Yield the operators that fail for these sizes, because they need an element."""
    for o in ops:
        shapes = [shape_at(v.shape, sizes) for v in (o.first, o.outputs[0])] if o in NEEDS_ELEMENTS else []
        if [0 in shape for shape in shapes] == [True, False]:
            yield o


def _trace_and_count(n: Any) -> tuple[SymbolicTrace, Count]:
    """Return the running trace, and what it knows of the size of a selection."""
    trace = current_trace.get()
    if trace is None:
        raise RuntimeError("a selection has a size in a trace with symbolic sizes only")
    return trace, trace.counts[next(iter(n.expression.symbols))]


def _fill(mask: Array, n: Any) -> Array:
    """Return a mask of one axis that selects its first elements where it selects fewer than the trace needs.

    Where an earlier selection is filled, this trace is not used, and the mask selects an element for x[0].
    """
    least = _least(n, mask)
    if not least:
        graph, at = running_graph(), _trace_and_count(n)[1].selected.number
        earlier = [v for (selected, k), v in graph.filled.items() if k == 1 and selected.number < at]
        conditions: list[Any] = [TracedArray(graph, v) for v in earlier]
        if not conditions or is_symbolic(mask.shape[0]) or not mask.shape[0]:
            return mask
        return np.concatenate([mask[:1] | ~functools.reduce(np.logical_and, conditions), mask[1:]])
    return np.concatenate([mask[:least] | ~_selects(mask, least), mask[least:]])


def _selects(values: Any, least: int) -> Any:
    """Return whether a mask selects at least so many elements, or a number is at least that."""
    if values.dtype != BOOL:
        return values >= least
    return values.any() if least == 1 else cast(values, I8).sum() >= least


def _least(n: Any, values: Any) -> int:
    """Return to how many elements the trace fills selection `n`, or 0. `values`: its mask or number."""
    trace, count = _trace_and_count(n)
    graph, least = running_graph(), trace.filled.get(count.selected, 0)
    if count.selected in trace.watched:
        graph.filled.setdefault((count.selected, 1), _selects(values, 1)._value)
    if not least:
        return 0
    for number in sorted({1, least}):
        enough = _selects(values, number)
        for other in (trace.counts[m].selected for m in count.limit.symbols & trace.counts.keys()):
            larger = graph.filled.get((other, trace.filled.get(other, 0)))
            enough = enough if larger is None else enough & TracedArray(graph, larger)
        graph.filled.setdefault((count.selected, number), enough._value)
    return least


def compressed(x: Array, mask: Array, axis: int) -> Array:
    """Return the elements of `x` where `mask` is true. The mask has the sizes of x from `axis` on."""
    axes, mask = range(axis, axis + mask.ndim), _certain(mask)
    size = size_of(mask.shape)
    n = count_of(mask, size)
    shape = (*x.shape[:axis], n, *x.shape[axes.stop :])
    if type(n) is int:
        return np.zeros(shape, x.dtype)
    merged = reshape(x, (*x.shape[:axis], size, *x.shape[axes.stop :]))
    flat = _fill(reshape(mask, (size,)), n)
    return _selection(record("Compress", [merged, flat], shape, x.dtype, axis=axis))


def without_position(x: Array, at: Array, axis: int) -> Array:
    """Return an array of a size that depends on data without its element at a position that is inside of it."""
    n = x.shape[axis]
    shape = (*x.shape[:axis], extreme("max", n - 1, 0), *x.shape[axis + 1 :])
    return record("Compress", [x, ~(arange(n) == at)], shape, x.dtype, axis=axis)


def _selection(array: TracedArray) -> TracedArray:
    """Enter an array as one from whose shape a size that depends on data can be computed."""
    array._graph.selections.append(array._value)
    return array


def positions(x: Array) -> tuple[Array, ...]:
    """Return np.nonzero(x): for each axis the positions of the elements that are not 0."""
    if is_constant(x):
        return x.nonzero()
    mask: Any = _certain(cast(x, BOOL))
    if not mask.ndim:
        raise refusal("np.nonzero of a scalar cannot be recorded; use np.where(mask, a, b)")
    n = count_of(mask, size_of(mask.shape))
    if type(n) is int:
        return tuple(np.zeros(0, np.int64) for _ in range(mask.ndim))
    flat = reshape(mask, (size_of(mask.shape),))
    filled = _fill(flat, n)
    mask = mask if filled is flat else reshape(filled, mask.shape)
    indices = _selection(record("NonZero", [mask], (mask.ndim, n), I8))
    return tuple(reshape(row, (n,)) for row in (indices[i : i + 1] for i in range(mask.ndim)))


def mask_of_positions(items: Sequence[Any]) -> TracedArray | None:
    """Return the mask whose positions along all of its axes are the first items of a key, or None."""
    if type(items[0]) is not TracedArray:
        return None
    graph = items[0]._graph
    value: Value | None = items[0]._value
    while value is not None and value.const is None:
        producer = graph.producers.get(value)
        if producer is None or (producer not in SELECTS and producer not in SIZED_BY_DATA):
            return None
        value = producer.inputs[0]
        if producer.op == "NonZero" and value is not None:
            mask = TracedArray(graph, value)
            rows = [x._value if type(x) is TracedArray else None for x in items[: mask.ndim]]
            indices = [x._value if type(x) is TracedArray else None for x in positions(mask)]
            return mask if rows == indices else None
    return None


def certainly_inside(index: TracedArray, x: Any) -> bool:
    """Return whether indices are inside of an array because they are the number of a step of a loop over it, or,
    for an array of one axis, positions of the true elements of a mask, plus a number: order[np.nonzero(mask)[0] +
    1], where the mask is computed from order[1:].
    """
    run = current_run.get()
    trace, producers, value = current_trace.get(), index._graph.producers, index._value
    number = value
    while number in producers and producers[number] in VIEWS:
        number = producers[number].first
    if run is not None and any(p.step._value is number and p.runs_once_per(x.shape[0]) for p in run.loops):
        return True
    offset = 0
    while trace is not None and len(x.shape) == 1 and value in producers:
        o = producers[value]
        source = next((v for v in o.inputs if v is not None and v.const is None), None)
        if source is None or o not in POSITIONS:
            return False
        if o.op == "NonZero":
            of_mask, of_x = (_exact_size(v.shape[0]) for v in (source, x))
            names = of_mask.symbols  # if an element is true, the mask is not empty
            least = 1 if len(names) == 1 and of_mask.value(dict.fromkeys(names, 0)) <= 0 else 0
            some = SymbolicTrace(trace.ranges | {n: (least, trace.ranges[n][1]) for n in names})
            rest = with_known_extrema(of_x, some) - with_known_extrema(of_mask, some) - constant(offset)
            return len(source.shape) == 1 and offset >= 0 and some.not_negative(rest)
        if o.op == "Add":
            numbers = [v.const for v in o.inputs if v is not None and v.const is not None and v.const.size == 1]
            if not numbers or elements_of(numbers[0]) is not None:
                return False
            offset += int(numbers[0].reshape(()))
        value = source
    return False


def _exact_size(d: Any) -> Expression:
    return d.expression if is_symbolic(d) else constant(int(d))
