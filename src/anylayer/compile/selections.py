"""Trace code that selects elements by their values: x[mask], np.nonzero.

A first trace fails at such a selection, because its size depends on data. The code is then traced twice with a
symbol for each such size, with two examples of its value, and both traces become one graph with dynamic sizes.

Code may ask whether nothing is selected (`if len(keep) == 0: return ...`). It is traced once more with nothing. If
it then returns something else than the graph returns in this case, both traces are joined; the selection of the
other one is filled, so that its operators run on at least one element. Other comparisons of these sizes by the
user's code are decisions: see anylayer.tracing.decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeVar

from anylayer import compile as compilation
from anylayer import tracing
from anylayer.errors import AnyLayerError, TraceError
from anylayer.graph import Dim, Graph
from anylayer.graph.expressions import Expression, bounds, symbol
from anylayer.graph.guards import Guard, SelectionKey, SymbolicTrace, current_trace, repeated_trace, symbolic_trace
from anylayer.graph.ir import Value
from anylayer.graph.place import Lost, refusal
from anylayer.graph.repetition import TooMuchInAll, limit_repetition
from anylayer.graph.sized import equal_constants, sized_array
from anylayer.graph.symbolic import Size, new_size, plain
from anylayer.network import TensorType
from anylayer.tracing import SizeDependsOnData
from anylayer.tracing.checked import compare
from anylayer.tracing.record import current_graph, running_graph
from anylayer.tracing.size_arithmetic import hold

if TYPE_CHECKING:
    from anylayer.compile.symbolic import Trace
    from anylayer.source import TracedNode

R = TypeVar("R")
Tracer = Callable[[Sequence[TensorType]], Graph]
_MAX_EMPTY = 8
"""The largest number of selections that a function may find empty."""
_FEW_QUESTIONS = 4
"""The largest number of selections of which each combination of empty ones is traced, if ifs can be joined."""
_MAX_FILLED = 16
"""The largest number of elements that a selection is filled to."""


def trace_with_selections(trace: Tracer, types: Sequence[TensorType], *, exact: bool = False) -> Graph:
    """Return the graph that `trace` returns for inputs of these types. It may have dynamic sizes.

    types: a Dim in the shape of an input is a size that depends on data, too. exact: express the sizes of the
    outputs by those of the inputs where a trace with symbols can, and by new ones otherwise.
    """
    running = current_trace.get()
    if running is not None:
        running.decide = tracing.counts.decide_size
        with repeated_trace() as restart:
            return _asking_masks(lambda: _check_conditions(trace(types), running, lambda _: trace(types)), restart)
    dims: list[Any] = [d for t in types for d in (*t.shape, *(t.elements or ())) if isinstance(d, Dim)]
    dims += [source for d in dims for source in d.base.sources]
    bases = {d.base for d in dims}
    is_exact = exact and len({d.name for d in bases}) == len(bases)  # a name becomes a symbol
    plain: Graph | None = None
    try:
        plain = trace(types)
    except SizeDependsOnData:
        pass
    except TraceError:
        if not dims:
            raise
    if plain is not None:
        new = {d.base for v in plain.outputs for d in v.shape if isinstance(d, Dim)} - {d.base for d in dims}
        sized = new or any(t.elements for t in types) or any(o.op == "Shape" for o in plain.ops)
        if not is_exact or not dims or not sized:
            return plain

    def again(recorded: SymbolicTrace) -> Graph:
        return trace([_with_symbols(t, recorded) for t in types])

    def traced(turn: int) -> Trace:
        with symbolic_trace({}, turn=turn) as recorded:
            recorded.decide = tracing.counts.decide_size
            of_some = again(recorded)
            graph = _check_conditions(of_some, recorded, again)
            if plain is not None and graph is not of_some:
                raise TraceError("nothing selected is a case of its own")
        examples = {name: count.example for name, count in recorded.counts.items()}
        return compilation.symbolic.Trace(graph, examples, tuple(recorded.guards), recorded.ranges)

    def whole() -> Graph:
        first, second = traced(0), traced(1)
        return compilation.symbolic.for_every_size(first, second, first.ranges, dims=dims)

    try:
        graph = _asking_masks(whole)
    except AnyLayerError:
        if plain is None:
            raise
        return plain
    graph.selects = plain is None
    return graph


def _asking_masks(attempt: Callable[[], R], restart: Callable[[], None] = lambda: None) -> R:
    """Return the result of an attempt in which `if mask.any()` is a question of a size, as `if len(x[mask])` is.

    If there are many such questions, both sides of their ifs are recorded. If that fails, another attempt takes
    its place, in which `if mask.any()` is a decision.
    """
    answer = tracing.checked.answer_questions
    try:
        with limit_repetition(), answer("sizes", _FEW_QUESTIONS) as questions:
            return attempt()
    except tracing.checked.TooManyQuestions:
        others = ["joined", "sizes"]
    except AnyLayerError:
        if not questions.asked:
            raise
        others = []
    for how in others:
        restart()
        try:
            with limit_repetition(), answer(how) as questions:
                return attempt()
        except AnyLayerError as error:  # another attempt would record more, or the same
            if isinstance(error, TooMuchInAll) or (how == "sizes" and not questions.asked):
                raise
    restart()
    with limit_repetition():
        return attempt()


def share_size(traced: TracedNode, sizes: dict[str, Dim]) -> None:
    """Give the outputs of Compress and NonZero the size that another node's have, if both have the same mask.

    sizes: the sizes that masks select, by the names of the masks.
    """
    body, names = traced.body, traced.node.inputs
    selections = [] if body is None else [o for o in body.ops if o.op in ("Compress", "NonZero")]
    if body is None or len(selections) != 1 or len(names) != len(body.inputs):
        return
    shape, mask = selections[0].outputs[0].shape, selections[0].inputs[-1]
    old = {d.base for v in body.inputs for d in v.shape if isinstance(d, Dim)}
    size = next((d for d in shape if isinstance(d, Dim) and d.base not in old), None)
    if size is None or mask not in body.inputs:
        return
    shared = sizes.setdefault(names[body.inputs.index(mask)], size)
    shared.maximum = min(shared.maximum, size.maximum)
    for value in (v for o in body.ops for v in o.outputs):
        value.shape = tuple(shared if d is size else d for d in value.shape)
    traced.outputs = [v.type for v in body.outputs]


def with_sizes(x: Any, kind: TensorType) -> Any:
    """Return an input as a constant of symbolic sizes where its elements are known sizes."""
    trace = current_trace.get()
    if trace is None or trace.turn is None or kind.elements is None:
        return x
    elements = _with_symbols(kind, trace).elements
    return hold(running_graph(), sized_array(elements or (), kind.dtype, kind.shape))


def _with_symbols(kind: TensorType, trace: SymbolicTrace) -> TensorType:
    """Return the type of an input with symbolic sizes in place of its Dims."""

    def size(d: Any) -> Any:
        if not isinstance(d, Dim):
            return d
        sources = d.base.sources or (d.base,)
        counts = [trace.count(SelectionKey(0, s.name), s.maximum) for s in sources]
        values = {s.name: count[1] for s, count in zip(sources, counts) if count is not None}
        if len(values) < len(sources):
            return 0
        e = compilation.symbolic.size_expression(d.base)
        return new_size(e.value(values), e) * d.factor

    elements = None if kind.elements is None else tuple(map(size, kind.elements))
    return TensorType(tuple(map(size, kind.shape)), kind.dtype, elements)


def _check_conditions(
    graph: Graph,
    trace: SymbolicTrace,
    again: Callable[[SymbolicTrace], Graph],
    not_empty: frozenset[SelectionKey] = frozenset(),
) -> Graph:
    """Remove the conditions on sizes that depend on data from a trace, and return the graph in which they are
    decided. Raises TraceError for one that cannot be.

    not_empty: the selections that are not empty where the graph is used.
    """
    conditions = _conditions_on_data(trace)
    for guard in conditions:
        del trace.guards[guard]
    for guard in conditions:
        if not trace.asks_for_nothing(guard):
            raise _not_recorded(guard)
    before, notes = not_empty, list(graph.notes)
    names = dict.fromkeys(name for guard in conditions for name in guard.symbols)
    tracing.checked.questions().need_few(names.keys())
    for name in names:
        selected = trace.counts[name].selected
        if selected in not_empty:
            continue
        place = next(g.place for g in conditions if name in g.symbols)
        if len(trace.empty) + len(trace.filled) >= _MAX_EMPTY:
            raise refusal(
                f"the code does something else for each of more than {_MAX_EMPTY} selections that may be empty; "
                "remove this question where arrays without elements give the same result",
                place=place,
            )
        nothing = trace.empty | {selected}
        empty = _traced_again(trace, again, nothing, trace.filled, before)
        notes += [note for note in empty.notes if type(note) is Lost and note not in notes]
        if _agrees(graph, empty, trace, name):
            before |= {selected}  # a later one is compared where this one is not empty
            continue
        if before != not_empty:
            empty = _traced_again(trace, again, nothing, trace.filled, not_empty)
        filled = _filled_with(trace, name)
        if filled is None:
            full = _traced_again(trace, again, trace.empty, trace.filled, not_empty | {selected}, {selected})
            if any(tracing.counts.lacking_elements(full.ops, trace.examples({name: 0}))):
                raise refusal(
                    f"whether this selection of at most {trace.counts[name].limit} elements is empty depends on "
                    "others in a way that cannot be recorded; ask whether something is selected with mask.any() "
                    "and np.where",
                    place=place,
                )
        else:
            full = _traced_again(trace, again, trace.empty, filled)
        needed = [(selected, 1), *((n, least) for n, least in (filled or {}).items() if least > 1)]
        if any(key not in full.filled for key in needed):
            what = "the code does something else if an input has no elements"
            raise refusal(f"{what}; remove this question, or give the input a fixed size", place=place)
        token = current_graph.set(full)
        try:
            outer = {**dict.fromkeys(trace.watched, 1), **trace.filled}
            new = [(selected, 1), *(key for key in (filled or {}).items() if key not in trace.filled.items())]
            graph = tracing.joins.join_selected(full, empty, new, outer, place)
        finally:
            current_graph.reset(token)
        for guard in _conditions_on_data(trace):
            raise _not_recorded(guard)
        break
    graph.notes = notes
    return graph


def _conditions_on_data(trace: SymbolicTrace) -> list[Guard]:
    """Return the conditions of a trace on sizes that depend on data."""
    return [g for g in trace.guards if not trace.counts.keys().isdisjoint(g.symbols)]


def _not_recorded(guard: Guard) -> TraceError:
    """Return the error for a condition that does not only ask whether something is selected."""
    return refusal(
        f"{guard} is asked of a number of selected elements, which is known only when the network runs. "
        "It can be recorded whether nothing is selected (len(x) == 0); x[:n] selects at most n elements",
        place=guard.place,
    )


def _filled_with(trace: SymbolicTrace, name: str) -> Mapping[SelectionKey, int] | None:
    """Return the selections to fill so that selection `name` certainly has an element, with their least numbers:
    a[1:][mask] can only have one if `a` has two.

    Return None if others have fewer elements in some cases in which `name` has one, as both parts of a
    concatenation.
    """
    filled = {**trace.filled, trace.counts[name].selected: 1}
    names = [name]
    for n in names:
        limit, least = trace.counts[n].limit, filled[trace.counts[n].selected]
        larger = sorted(limit.symbols & trace.counts.keys())
        before = {other: filled.get(trace.counts[other].selected, 0) for other in larger}
        for k in range(_MAX_FILLED + 1):
            numbers = {other: max(k, before[other]) for other in larger}
            ranges = trace.ranges | {m: (number, max(number, trace.ranges[m][1])) for m, number in numbers.items()}
            if not larger or bounds(limit, ranges)[0] >= least:
                break
        else:
            return None
        new = {other: number for other, number in numbers.items() if number != before[other]}
        if any(_largest(limit, other, number - 1, trace) >= least for other, number in new.items()):
            return None
        filled |= {trace.counts[other].selected: number for other, number in new.items()}
        names.extend(other for other in new if other not in names)
    return filled


def _largest(limit: Expression, name: str, most: int, trace: SymbolicTrace) -> float:
    """Return the largest value of a size where the size `name` that it is computed from is at most `most`."""
    if limit.symbols == {name}:
        return max(limit.value({name: n}) for n in range(most + 1))
    return bounds(limit, {**trace.ranges, name: (0, most)})[1]


def _traced_again(
    trace: SymbolicTrace,
    again: Callable[[SymbolicTrace], Graph],
    empty: frozenset[SelectionKey],
    filled: Mapping[SelectionKey, int],
    not_empty: frozenset[SelectionKey] = frozenset(),
    watched: Set[SelectionKey] = frozenset(),
) -> Graph:
    """Trace the code once more where some selections are empty and others are filled, and return the graph."""
    with symbolic_trace(trace.ranges, trace.symbols, trace.turn) as other:
        other.empty, other.filled, other.decide = empty, filled, trace.decide
        other.watched = trace.watched | watched
        graph = _check_conditions(again(other), other, again, not_empty)
    trace.guards.update(other.guards)
    for size, (low, high) in other.ranges.items():
        least, most = trace.ranges.get(size, (low, high))
        is_count = size in other.counts
        trace.ranges[size] = (min if is_count else max)(low, least), min(high, most)
    for name, count in other.counts.items():
        if name not in trace.counts:
            trace.counts[name] = count
            trace.assume(Guard(symbol(name), "<=", count.limit))
    return graph


def _agrees(graph: Graph, empty: Graph, trace: SymbolicTrace, name: str) -> bool:
    """Return whether a trace in which selection `name` is empty returns what `graph` returns in this case, and
    whether `graph` runs then: x[0] of nothing does not.
    """
    values = trace.examples({name: 0})

    if any(tracing.counts.lacking_elements(graph.ops, values)):
        return False
    same: _Same | None = None
    for v, w in zip(graph.outputs, empty.outputs, strict=True):
        shape = tracing.counts.shape_at(v.shape, values)
        if shape[:1] == (0,) and w in empty.nothing:
            continue
        if 0 in shape and (shape, v.dtype) == (plain(w.shape), w.dtype):
            continue
        same = same or _Same(graph, empty, trace.symbols.keys(), values, trace.examples({}))
        if not same.values(v, w):
            return False
    return True


class _Same:
    """A comparison of a graph in which some sizes are 0 with a trace in which they are: whether both compute the
    same values after parts without elements are left out of concatenations.

    inputs: the symbols of sizes of the inputs. sizes: the values of the symbols of both.
    """

    def __init__(self, graph: Graph, empty: Graph, inputs: Set[str], *sizes: Mapping[str, int]) -> None:
        self.graphs, self.inputs, self.sizes = (graph, empty), inputs, sizes
        self.memo: dict[tuple[Value, Value], bool] = dict.fromkeys(zip(graph.inputs, empty.inputs), True)

    def size(self, d: Any, number: int) -> Any:
        """Return a size of the first or the second graph as a plain number."""
        expression = _as_expression(d)
        return d if expression is None else expression.value(self.sizes[number])

    def same_size(self, d: Any, e: Any) -> bool:
        """Return whether a size of the graph is one of the other trace, and counts the same elements."""
        if self.size(d, 0) != self.size(e, 1):
            return False
        first, second = self.sources(d, 0), self.sources(e, 1)
        if first is None or second is None or len(first) != len(second):
            return False
        return all(any(self.values(v, w) for w in second) for v in first)

    def same_sizes(self, first: Sequence[Any], second: Sequence[Any]) -> bool:
        return len(first) == len(second) and all(map(self.same_size, first, second))

    def sources(self, d: Any, number: int) -> list[Value] | None:
        """Return the values whose elements a size counts, without empty selections, or None if one is unknown."""
        expression, counts = _as_expression(d), self.graphs[number].counts
        if expression is None:
            return []
        names = {n for n in expression.symbols if n not in self.inputs and self.sizes[number][n]}
        values = {n: v for v, size in counts.items() if type(size) is Size for n in size.expression.symbols}
        return [values[n] for n in names] if names <= values.keys() else None

    def parts(self, v: Value, number: int) -> tuple[Value, list[Value]]:
        """Return a value, or the only one that it copies or concatenates, and what this one concatenates."""
        o = self.graphs[number].producers.get(v)
        if o is not None and o.op == "Identity":
            return self.parts(o.first, number)
        if o is None or o.op != "Concat":
            return v, []
        axis = o["axis"]
        parts = [x for x in o.inputs if x is not None and self.size(x.shape[axis], number)]
        return self.parts(parts[0], number) if len(parts) == 1 else (v, parts)

    def values(self, v: Value, w: Value) -> bool:
        """Return whether a value of the graph is one of the other trace."""
        if (v, w) not in self.memo:
            self.memo[v, w] = self._values(v, w)
        return self.memo[v, w]

    def _values(self, v: Value, w: Value) -> bool:
        (v, mine), (w, others) = self.parts(v, 0), self.parts(w, 1)
        if self.memo.get((v, w)):
            return True
        if v.const is not None or w.const is not None:
            return equal_constants(v.const, w.const, self.same_sizes)
        o, q = self.graphs[0].producers.get(v), self.graphs[1].producers.get(w)
        if o is None or q is None or (o.op, o.domain, o.attrs) != (q.op, q.domain, q.attrs):
            return False
        if v.dtype != w.dtype or o.outputs.index(v) != q.outputs.index(w):
            return False
        if o.body is not None and (q.body is None or compare(o.body, q.body) is not None):
            return False
        inputs, inputs_again = (mine, others) if mine or others else (o.inputs, q.inputs)
        return len(inputs) == len(inputs_again) and all(
            x is y if x is None or y is None else self.values(x, y) for x, y in zip(inputs, inputs_again)
        )


def _as_expression(d: Any) -> Any:
    """Return the expression of a symbolic size, and None for a plain number."""
    return d if isinstance(d, Expression) else getattr(d, "expression", None)
