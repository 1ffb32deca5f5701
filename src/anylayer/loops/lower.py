"""Lower a graph to loops: decide which values are stored in memory, and fuse the others into their consumers."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager

from anylayer.errors import LayerError
from anylayer.graph import Graph, Op, Value, operators
from anylayer.graph.expressions import constant, symbol
from anylayer.graph.facts import reduced_axes
from anylayer.graph.guards import Guard
from anylayer.graph.operators import (
    COSTLY,
    COUNTED,
    CREATES,
    ELEMENTWISE,
    MOVES,
    REDUCTIONS,
    SHORTENS,
    SIZED_BY_DATA,
)
from anylayer.graph.sizes import Dim, is_static, stand_for
from anylayer.loops import (  # noqa: F401 (they register their operators)
    elementwise,
    movement,
    reductions,
    regions,
    windows,
)
from anylayer.loops.composites import expanded
from anylayer.loops.intervals import LARGEST_SIZE
from anylayer.loops.ir import (
    CHECKS,
    DTYPES,
    INT,
    NEAR,
    Argument,
    Buffer,
    LoopProgram,
    Statement,
    Store,
    all_statements,
    stores_of,
    used_scalars,
)
from anylayer.loops.lowering import ELEMENTS, INLINED, NESTS, UNCOUNTED, Index, Lowering, Unsupported, sizes_of
from anylayer.loops.movement import concat_pieces
from anylayer.loops.opened import Opened
from anylayer.loops.reductions import copies, row_copies

_CHEAP = 3
"""The largest cost of a value that each consumer computes again: some loads and one or two operations."""
_OFTEN = 1.5
"""A value is worth holding in memory if each of its elements is read at least this many times."""
_FEW = 4
"""An input has few elements if it has this many times fewer than the output."""
_MAX_COST = 400
"""The smallest cost of a value that is held in memory even if it is read once, so that the code stays readable."""
_LONG = 64
"""The largest number of elements of a reduction that is computed again by each element that reads it."""
_MUCH = 1024
"""The largest number of operations of a value that is computed again by each element that reads it."""
_ITEMS = 256
"""The least number of rows for which each work item computes a row: as many as the items of a work group."""


def lower(source: Graph | Opened, *, by_element: bool = False, selects: bool = False) -> LoopProgram:
    """Return the loops that compute a graph, or a layer that `opened` has traced.

    by_element: whether each element of an output is computed separately if that is not too much work, as for the
    work items of a GPU. The caller then chooses the pitches (strides) of inputs and outputs. selects: whether
    outputs may have sizes that depend on data. They have memory for the largest sizes; one more output gets the
    sizes, in the order of LoopProgram.counts.

    Raises LayerError for an operator without loops; it names the operator and the source line.
    """
    traced = source if isinstance(source, Opened) else Opened(source)
    graph = expanded(traced.graph)
    low = Lowering(graph, traced.ranges, traced.parameters, by_element)
    low.space.assume(traced.guards)
    inputs = [Argument(f"input{i}", v.dtype, sizes_of(v)) for i, v in enumerate(graph.inputs)]
    outputs = [Argument(f"output{i}", v.dtype, sizes_of(v)) for i, v in enumerate(graph.outputs)]
    for argument, value in zip(inputs, graph.inputs):
        low.buffers[value] = _port(argument, "input", by_element)
        low.all.append(low.buffers[value])
    dims = _counted_sizes(graph) if selects else {}
    low.space.known.ranges.update({name: (0, d.maximum) for name, d in dims.items()})
    low.selects = selects
    targets = [_port(a, "output", by_element) for a in outputs]
    low.all.extend(targets)
    low.splits = not by_element or len({a.shape for a in outputs}) > 1
    try:
        append_graph(low, list(zip(graph.outputs, targets)))
    except RecursionError:
        raise LayerError("an element is computed by a chain of more operators than one expression holds") from None
    if low.counts:
        outputs.append(Argument(f"output{len(outputs)}", INT, (constant(len(low.counts)),)))
        low.all.append(_port(outputs[-1], "output", False))
        for i, (local, _) in enumerate(low.counts.values()):
            low.body.append(Store(low.all[-1], constant(i), low.scalars.local(local)))
    scalars = used_scalars(low.body, low.scalars.data)
    used = {s.buffer for s in stores_of(low.body)} | {x.data[0] for x in scalars if x.op == "load"}
    used |= {b for s in all_statements(low.body) for b in getattr(s, "buffers", ())}
    limited = {s for x in scalars if x.data == NEAR for s in low.scalars.limited_by(x)}
    return LoopProgram(
        inputs,
        outputs,
        list(traced.sizes),
        [*traced.guards, *(Guard(symbol(s), "<=", constant(LARGEST_SIZE)) for s in traced.sizes if s in limited)],
        [b for b in low.all if b in used],
        low.body,
        low.scalars.data,
        low.space.extents,
        any(x.op in CHECKS for x in scalars),
        [(local.name, param) for param, local in low.params.items()],
        low.counts,
    )


def _counted_sizes(graph: Graph) -> dict[str, Dim]:
    """Return the sizes that depend on data, by their symbols. Raises LayerError where loops cannot count them."""
    dims: dict[str, Dim] = {}
    selected = set[Dim]()
    for op in graph.ops:
        with naming(op):
            bases = [d.base for v in op.outputs for d in v.shape if isinstance(d, Dim)]
            selected.update(bases if op in SIZED_BY_DATA or op.op == "Loop" else ())
            countable = all(
                ({d} if d.expression is None else {s.base for s in d.sources}) <= selected for d in bases
            )
            if bases and not (countable and (op in COUNTED or op.op == "Inside")):
                raise Unsupported(UNCOUNTED)
            for d in bases:
                if d.expression is None and dims.setdefault(d.name, d) is not d:
                    raise Unsupported(UNCOUNTED)
    return dims


def append_graph(low: Lowering, targets: Sequence[tuple[Value, Buffer]], fused: Container[Value] = ()) -> None:
    """Append the loops that compute the graph of a lowering. targets: its outputs, with the buffer of each. fused:
    values that are not stored in memory.
    """
    graph = low.graph
    for value, target in targets:
        low.wanted.setdefault(value, target)
    held = held_by_element(graph) if low.by_element else _values_in_memory(graph)
    held = {v: why for v, why in held.items() if v not in fused}
    rows = _rows(graph, held) if low.by_element else {}
    if rows:
        held = {v: why for v, why in held.items() if why != "often read"}
    waiting: list[tuple[Value, Buffer]] = []
    for op in graph.ops:
        with naming(op):
            _one(low, op, held, waiting)
    _store(low, waiting)
    for value, target in targets:
        if low.buffers.get(value) is not target:
            if value in rows:
                row_copies(low, value, target, rows[value])
            else:
                copies(low, value, target)


def _port(argument: Argument, kind: str, pitched: bool) -> Buffer:
    """Return the buffer of an input or output. If `pitched`, its strides are symbols, which the printer names."""
    pitches = [symbol(f"{argument.name}.{axis}") for axis in range(len(argument.shape))] if pitched else []
    start = symbol(f"{argument.name}.start") if pitched else constant(0)
    return Buffer(argument.name, argument.dtype, argument.shape, kind, None, tuple(pitches), start)


@contextmanager
def naming(op: Op) -> Iterator[None]:
    """Name the operator and its line in an error."""
    try:
        yield
    except Unsupported as error:
        line = f" at {op.place}" if op.place else ""
        what = f"operator {op.op}{line} cannot become loops: {error.message}"
        raise LayerError(what, *([f"node '{op.scope}'"] if op.scope else ())) from error


def _one(low: Lowering, op: Op, held: Mapping[Value, str], waiting: list[tuple[Value, Buffer]]) -> None:
    """Append the loops of an operator if it is not fused into its consumers.

    waiting: values of equal shapes that the same loops will store, with their buffers.
    """
    if op.domain or (op.op not in NESTS and op.op not in ELEMENTS):
        raise Unsupported("no loops are written for it")
    for value in (*op.inputs, *op.outputs):
        if value is not None and not (low.selects or is_static(value.shape)):
            raise Unsupported(UNCOUNTED)
        if value is not None and value.dtype.name not in DTYPES:
            raise Unsupported(f"an array is {value.dtype}; convert it with .astype(np.float32) before")
    if op.op in NESTS and not (low.by_element and op.op in INLINED and op.outputs[0] not in held):
        _store(low, waiting)
        NESTS[op.op](low, op)
        return
    for value in op.outputs:
        why = held.get(value)
        if why == "pieces":
            _store(low, waiting)
            concat_pieces(low, op)
        elif why:
            buffer, shape = low.wanted.get(value) or low.temporary(value), sizes_of(value)
            if low.by_element or any(sizes_of(v) != shape for v, _ in waiting) or _reads(low, value, waiting):
                _store(low, waiting)
            if value.dtype != INT or value.shape or low.by_element or low.element(value, []).op != "index":
                waiting.append((value, buffer))  # otherwise, its consumers know its range


def _reads(low: Lowering, value: Value, waiting: Sequence[tuple[Value, Buffer]]) -> bool:
    """Return whether a value is computed from waiting values."""
    others, pending, seen = {v for v, _ in waiting}, [value] if waiting else [], set[Value]()
    while pending:
        v = pending.pop()
        if v in others:
            return True
        op = None if v in seen or v in low.buffers else low.graph.producers.get(v)
        seen.add(v)
        pending += [] if op is None else [u for u in op.inputs if u is not None]
    return False


def _store(low: Lowering, waiting: list[tuple[Value, Buffer]]) -> None:
    """Append the loops that store the waiting values."""
    values = list(waiting)
    waiting.clear()

    def stores(index: Index) -> list[Statement]:
        statements: list[Statement] = []
        for value, buffer in values:
            with naming(low.graph.producers[value]):
                statements.append(low.copy(value, buffer, index))
        return statements

    if values:
        low.fill(sizes_of(values[0][0]), stores)
    low.buffers.update(values)


def _values_in_memory(graph: Graph) -> dict[Value, str]:
    """Return the values that are stored in memory although they could be fused into their consumers: the outputs,
    and values that are expensive and read more often than they have elements.
    """
    costs = _costs(graph)
    held: dict[Value, str] = dict.fromkeys(graph.outputs, "output")
    reads: dict[Value, float] = {}
    for op in reversed(graph.ops):
        times = 1.0
        for value in op.outputs if op.op not in NESTS else ():
            often, cost = reads.get(value, 1.0) > _OFTEN, costs[value]
            if op.op == "Concat" and cost > _CHEAP * len(op.inputs):
                held[value] = "pieces"
            elif cost > _MAX_COST or (often and cost > _CHEAP):
                held.setdefault(value, "often read")
            if value not in held:
                times = max(times, reads.get(value, 1.0))
        for i, v in enumerate(op.inputs):
            if v is not None:
                reads[v] = max(reads.get(v, 0.0), times * _repeats(op, i, v))
    return held


def held_by_element(graph: Graph) -> dict[Value, str]:
    """Return the values that are stored in memory when each element of an output is computed separately: expensive
    values that are read often, and inputs of operators whose loops cannot be nested in others.
    """
    often, whole = _readers(graph)
    held: dict[Value, str] = {}
    costs: dict[Value, float] = {}
    for op in graph.ops:
        length = _length(op)
        for value in op.outputs:
            cost = length * _cost(op, value, costs)
            repeated = often.get(value, 1.0) > _OFTEN and (length > _LONG or cost > _MUCH)
            if repeated or (value in whole and op.op in INLINED):
                held[value] = "often read"
            costs[value] = 1.0 if value in held or (op.op in NESTS and op.op not in INLINED) else cost
    read = {v for op in graph.ops for v in op.inputs}
    producers = graph.producers
    pieces = [v for v in graph.outputs if v not in read and v in producers and producers[v].op == "Concat"]
    return {**held, **dict.fromkeys(pieces, "pieces")}


def _cost(op: Op, value: Value, costs: Mapping[Value, float]) -> float:
    """Return the number of operations per element of an output, with those of its inputs. Inputs that have few
    elements are computed once.
    """
    parts = [(v, costs.get(v, 1.0)) for v in dict.fromkeys(op.inputs) if v is not None]
    cost = sum(min(c, 1.0) if _FEW * _count(v) <= _count(value) else c for v, c in parts)
    return cost + (0 if op in MOVES or op in CREATES else 10 if op in COSTLY else 1)


def _rows(graph: Graph, held: Mapping[Value, str]) -> dict[Value, Sequence[int]]:
    """Return the axes along which one work item computes all elements of an output, for the outputs that read sums
    over these axes. {} if a value that is stored in memory because it is often read is not such a sum, or if there
    would be few work items.
    """
    sums = [v for v, why in held.items() if why == "often read"]
    axes = set(reduced_axes(graph.producers[sums[0]]) or ()) if sums else set()
    if not axes:
        return {}
    rank = len(sums[0].shape)
    computed = set[Value]()
    for op in graph.ops:
        same = all(len(v.shape) == rank for v in op.outputs)
        reduces = same and op in REDUCTIONS and set(reduced_axes(op) or ()) == axes
        if not computed.isdisjoint(op.inputs) or not set(sums).isdisjoint(op.outputs):
            if not reduces and not (same and (op in ELEMENTWISE or op.op == "Identity")):
                return {}
            computed.update(op.outputs)
    rest = [int(d) for a, d in enumerate(sums[0].shape) if a not in axes]
    targets = [v for v in graph.outputs if v in computed]
    rows = [[int(d) for a, d in enumerate(v.shape) if a not in axes] for v in (*sums, *targets)]
    return (
        dict.fromkeys(targets, sorted(axes)) if math.prod(rest) >= _ITEMS and all(r == rest for r in rows) else {}
    )


def _readers(graph: Graph) -> tuple[dict[Value, float], set[Value]]:
    """Return (reads, whole) for a graph whose values are all fused into their consumers. `reads` is how often each
    element of a value is read. `whole` are the values that operators read whose loops cannot be nested in other
    loops.
    """
    often: dict[Value, float] = {}
    whole: set[Value] = set()
    for op in reversed(graph.ops):
        alone = op.op in NESTS and op.op not in INLINED
        times = 1.0 if alone else max(often.get(v, 1.0) for v in op.outputs)
        for i, v in enumerate(op.inputs):
            if v is not None:
                often[v] = max(often.get(v, 0.0), times * _repeats(op, i, v))
                if alone or (op.op not in NESTS and not whole.isdisjoint(op.outputs)):
                    whole.add(v)
    return often, whole


def _length(op: Op) -> float:
    """Return how many elements a reduction combines; 1 for other operators."""
    if op.op not in INLINED or op.inputs[0] is None:
        return 1.0
    if op.op == "MatMul":
        return float(int(op.inputs[0].shape[-1]))
    return _count(op.inputs[0]) / max(_count(op.outputs[0]), 1)


def _costs(graph: Graph) -> dict[Value, float]:
    """Return the number of operations per element of each value if all values before it are fused."""
    costs: dict[Value, float] = {}
    whole: set[Value] = set()
    for op in graph.ops:
        parts = [v for v in dict.fromkeys(op.inputs) if v is not None]
        is_index = op in operators.INDEX_ARITHMETIC or op.op == "Inside"
        simple = is_index and all(v.dtype.kind == "i" and (v in whole or v.const is not None) for v in parts)
        for value in op.outputs:
            if simple:
                whole.add(value)
            cost = min(_cost(op, value, costs), 2 * _MAX_COST)
            costs[value] = 0 if simple else 1 if op.op in NESTS else cost
    return costs


def _repeats(op: Op, i: int, v: Value) -> float:
    """Return how often an operator reads an element of its input `i`, on average."""
    size, count = max(_count(v), 1), max(map(_count, op.outputs))
    if op.op == "MatMul":
        return max(1.0, count * float(int((op.inputs[0] or v).shape[-1])) / size)
    if op.op == "TopK" and i == 0:
        return float(int(v.shape[op["axis"]]))
    once = op.op in NESTS or op in SHORTENS or op.op == "Concat" or (op.op == "Pad" and op["mode"] == "constant")
    return 1.0 if once else count / size


def _count(v: Value) -> int:
    return math.prod(1 if isinstance(d, str) else int(d) for d in stand_for(v.shape))
