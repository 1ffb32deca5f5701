"""How corrections are entered and carried out.

A correction gets one operator, whose inputs are corrected already. It returns the values that replace the
operator's outputs, or None to leave the operator as it is. It raises EngineError where the engine computes the
operator wrongly and there is no other way to spell it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from anylayer.corrections._steps import before_steps
from anylayer.errors import EngineError, TraceError
from anylayer.graph import Graph, Op, Value
from anylayer.graph.intervals import Interval, Intervals
from anylayer.optimize.simplify import Rewriter
from anylayer.tracing import trace

Correction = Callable[["Corrector", Op], "list[Value] | None"]

_FEW = 4096

CORRECTIONS: dict[str, dict[str, list[Correction]]] = {}
"""Engine -> operator -> what is tried on it."""


def correction(engine: str, *ops: str) -> Callable[[Correction], Correction]:
    """Enter a correction of some operators for an engine."""

    def enter(rewrite: Correction) -> Correction:
        for op in ops:
            CORRECTIONS.setdefault(engine, {}).setdefault(op, []).append(rewrite)
        return rewrite

    return enter


BEFORE: dict[str, list[Callable[[Corrector, Op | None, Sequence[Value]], None]]] = {}
"""Engine -> functions called for each operator with its inputs, before it is corrected, and at the end, without an
operator, with the graph's outputs."""

REQUIREMENTS: dict[str, list[Callable[[Graph], None]]] = {}
"""Engine -> functions that raise EngineError for a corrected graph that the engine still computes wrongly."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """A graph that an engine computes right.

    Where there are `checks`, the graph has one more output than the given one: an int32 array with one element per
    check, which is not 0 where the thing that the check names has happened. `divisions` are values that the engine
    must compute by division, not as a product with the reciprocal.
    """

    graph: Graph
    checks: list[str] = field(default_factory=list)
    divisions: list[Value] = field(default_factory=list)


class Corrector(Rewriter):
    """The corrected graph while it is made.

    `checking` tells whether it may have checks. `rough` holds, by id of a value of 64 bits, the same in
    float32, where it may need more than 32 bits; `checked` are the ids of those that a check is about.
    """

    def __init__(self, graph: Graph, engine: str, checking: bool) -> None:
        super().__init__(graph)
        self._hooks = BEFORE.get(engine, ())
        self._before = graph
        self._old: Op | None = None
        self.checking = checking
        self.checks: list[tuple[Value, str]] = []
        self.divisions: list[Value] = []
        self.rough: dict[Value, Value] = {}
        self.checked: set[Value] = set()

    @cached_property
    def intervals(self) -> Intervals:
        """The intervals of the given graph's values."""
        return Intervals(self._before.producers, narrow=True).of_all(self._before.ops)

    @cached_property
    def before_steps(self) -> set[Value]:
        """The values of the given graph whose last bits decide a floor or a comparison, by id."""
        return before_steps(self._before)

    @cached_property
    def has_infinity(self) -> bool:
        """Whether a small constant of the given graph holds an infinite value."""
        constants = (v.const for o in self._before.ops for v in o.inputs if v is not None and v.const is not None)
        return any(c.dtype.kind == "f" and c.size <= _FEW and np.isinf(c).any() for c in constants)

    def interval(self, i: int) -> Interval:
        """Return the interval of input `i` of the operator that is corrected."""
        value = self.old.inputs[i]
        return (-math.inf, math.inf) if value is None else self.intervals.of(value)

    @property
    def old(self) -> Op:
        """The operator that is corrected, as it stands in the given graph."""
        if self._old is None:
            raise ValueError("no operator is corrected")
        return self._old

    def tell(self, o: Op | None, values: Sequence[Value]) -> None:
        """Call the engine's functions of BEFORE."""
        for hook in self._hooks:
            hook(self, o, values)

    def check(self, o: Op, flag: Value, message: str) -> None:
        """Let the engine stop with a message where a flag (a boolean of any shape) is true."""
        whole = step(self, o, "Cast", [flag], flag.shape, np.int32, to=6)
        if len(flag.shape):
            axes = self.constant(np.arange(len(flag.shape)))
            whole = step(self, o, "ReduceMax", [whole, axes], (), np.int32, keepdims=0)
        whole = step(self, o, "Reshape", [whole, self.constant(np.array([1]))], (1,), np.int32)
        self.checks.append((whole, f"operator '{o.op}'{_where(o)}: {message}"))

    def correct(self, o: Op, rules: Sequence[Correction]) -> list[Value]:
        """Return what the outputs of an operator of the given graph are."""
        self._old = o
        here = replace(o, inputs=[self.mapped(v) for v in o.inputs])
        self.tell(here, [v for v in here.inputs if v is not None])
        if not o.domain:
            for rule in rules:
                made = rule(self, here)
                if made is not None:
                    return made
        return self.graph.append_copy(here, here.inputs)


def corrected(graph: Graph, engine: str, *, checking: bool = False) -> Corrected:
    """Return an equal graph that an engine computes right. The given one stays as it is.

    With `checking` the graph may get an output of checks, see Corrected. Raises EngineError where the engine
    computes an operator wrongly and there is no other way to spell it.
    """
    rules = CORRECTIONS.get(engine, {})
    done = (
        _rewritten(graph, engine, rules, checking) if any(o.op in rules for o in graph.ops) else Corrected(graph)
    )
    for require in REQUIREMENTS.get(engine, ()):
        require(done.graph)
    return done


def _rewritten(graph: Graph, engine: str, rules: Mapping[str, Sequence[Correction]], checking: bool) -> Corrected:
    new = Corrector(graph, engine, checking)
    for o in graph.ops:
        new.take(o.outputs, new.correct(o, rules.get(o.op, ())))
    new.graph.outputs = [v for v in map(new.mapped, graph.outputs) if v is not None]
    new.tell(None, new.graph.outputs)
    if new.checks:
        flags = [flag for flag, _ in new.checks]
        new.graph.outputs += new.graph.emit("Concat", flags, [((len(flags),), np.int32)], {"axis": 0})
    new.graph.drop_dead()
    return Corrected(new.graph, [message for _, message in new.checks], new.divisions)


def step(
    new: Rewriter, o: Op, op: str, inputs: Sequence[Value | None], shape: Sequence[Any], dtype: Any, **attrs: Any
) -> Value:
    """Append an operator on the way to what `o` gives."""
    kind = (tuple(shape), np.dtype(dtype))
    return new.graph.emit(op, inputs, [kind], attrs, place=o.place, scope=o.scope)[0]


def spelled(new: Corrector, o: Op, function: Callable[..., Any]) -> list[Value] | None:
    """Return what a function of the operator's inputs records. None where all inputs are constants.

    The function gets None for an input that is left out, and an array for a constant.
    """
    free = [v for v in o.inputs if v is not None and v.const is None]
    if not free:
        return None

    def call(arrays: list[Any]) -> list[Any]:
        left = iter(arrays)
        results = function(*[None if v is None else next(left) if v.const is None else v.const for v in o.inputs])
        return [*results] if isinstance(results, (list, tuple)) else [results]

    try:
        body = trace(call, [v.type for v in free])
    except TraceError as error:
        raise refused(o, error.message) from error
    count = len(new.graph.ops)
    made = new.graph.inline(body, free, scope=o.scope)[: len(o.outputs)]
    new.divisions += [d.outputs[0] for d in new.graph.ops[count:] if d.op == "Div"]
    for got, want in zip(made, o.outputs):
        if got.dtype != want.dtype or len(got.shape) != len(want.shape):
            raise refused(o, f"{got.type} in place of {want.type}")
    return made


def refused(o: Op, why: str) -> EngineError:
    """Return the error of an operator that cannot be corrected."""
    return EngineError(
        f"operator '{o.op}'{_where(o)} is computed wrongly by this engine: {why}. Use engine 'onnxruntime'"
    )


def _where(o: Op) -> str:
    return f" (layer '{o.scope}')" if o.scope else ""
