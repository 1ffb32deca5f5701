"""The graph that corrections write, and what an engine gets.

A correction is a rule of kind "must": see optimize.rules. It raises EngineError where the engine computes an
operator wrongly and no other operators can replace it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from anylayer.errors import EngineError, TraceError
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import producer_through, values_before
from anylayer.graph.intervals import Intervals, intervals_of_body
from anylayer.graph.operators import PRODUCTS, REARRANGES, SUMS, TRANSCENDENTAL, is_discontinuous
from anylayer.graph.sizes import is_static
from anylayer.network import Array, Function
from anylayer.optimize.order import CORRECTED, load_rules
from anylayer.optimize.rules import ANY, END, RULES, Rewriter, Rule, RuleLog, chooser
from anylayer.optimize.simplify import lowered

if TYPE_CHECKING:
    from anylayer.graph.intervals import Interval

_SMALL = 4096
"""The number of elements of the largest constant that is searched for infinite values."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """A graph that an engine computes correctly.

    checks: messages. With at least one, the graph has an additional last output: an int32 array with one element
        per message. An element that is not 0 means that what its message says has happened in this run.
    divisions: values that the engine must compute by division, not as a product with the reciprocal.
    """

    graph: Graph
    checks: list[str] = field(default_factory=list)
    divisions: list[Value] = field(default_factory=list)


class Corrector(Rewriter):
    """A corrected graph under construction.

    checking: whether the graph may have checks.
    marked: the divisions of the old graph that must be divisions, not products with the reciprocal.
    input_intervals: those of the graph's inputs. is_body: whether the graph is the body of a loop.

    `approximate` maps integers of 64 bits that may need more than 32 bits to the same numbers in float32.
    `checked` holds those of them for which there is a check.
    """

    def __init__(
        self,
        graph: Graph,
        checking: bool,
        marked: Sequence[Value] = (),
        log: RuleLog | None = None,
        input_intervals: Mapping[Value, Interval] | None = None,
        is_body: bool = False,
    ) -> None:
        super().__init__(graph, log)
        self.marked = {*marked}
        self.input_intervals, self.is_body = input_intervals or {}, is_body
        self._current: Op | None = None
        self.checking = checking
        self.checks: list[tuple[Value, Sequence[str]]] = []
        self.divisions: list[Value] = []
        self.approximate: dict[Value, Value] = {}
        self.checked: set[Value] = set()

    @cached_property
    def old_intervals(self) -> Intervals:
        """The intervals of the old graph's values."""
        return Intervals(self.old.producers, narrow=True, inputs=self.input_intervals).of_all(self.old.ops)

    @cached_property
    def before_steps(self) -> set[Value]:
        """The float values of the old graph whose last bits can decide the result of a discontinuous operator.

        The search ends at operators whose own last bits differ between engines.
        """

        def is_exact(o: Op) -> bool:
            return not o.domain and o not in SUMS and o not in TRANSCENDENTAL

        ops = self.old.ops
        if self.is_body and any(map(is_discontinuous, ops)):  # which later steps compute from the states
            ops = [*ops, Op("Loop", [*self.old.outputs], [])]
        return values_before(ops, is_discontinuous, is_exact, kind="f")

    @cached_property
    def second_factors(self) -> set[Value]:
        """The values of the old graph that reach the second factor of a convolution or product as views."""
        ops = self.old.ops
        return values_before(ops, PRODUCTS.__contains__, REARRANGES.__contains__, kind="f", index=1)

    @cached_property
    def maps_of_filters(self) -> dict[Value, Op | None]:
        """The old producers of maps of transposed convolutions, by those of their filters, up to views."""
        pairs: dict[Value, Op | None] = {}
        for o in self.old.ops:
            if o.op == "ConvTranspose" and not o.domain:
                x, w = (producer_through(self.old.producers, v, REARRANGES) for v in o.inputs[:2])
                if w is not None:
                    pairs.setdefault(w.outputs[0], x)
        return pairs

    @cached_property
    def has_infinity(self) -> bool:
        """Whether a constant of the old graph with at most 4096 elements has an infinite one."""
        constants = (v.const for o in self.old.ops for v in o.inputs if v is not None and v.const is not None)
        return any(c.dtype.kind == "f" and c.size <= _SMALL and np.isinf(c).any() for c in constants)

    def interval(self, i: int) -> Interval:
        """Return the interval of input `i` of the operator that is being corrected."""
        value = None if self._current is None else self._current.inputs[i]
        return (-math.inf, math.inf) if value is None else self.old_intervals.of(value)

    def as_float32(self, o: Op, value: Value) -> Value:
        """Return a value in float32, for the correction of `o`."""
        if value.dtype == np.float32:
            return value
        if value.const is not None:
            return self.constant(np.asarray(value.const, np.float32))
        return self.step(o, "Cast", [value], value.shape, np.float32, to=1)

    def check(self, o: Op, flag: Value, message: str) -> None:
        """Add a check: the engine raises an error with this message if an element of a boolean array is true."""
        static = is_static(flag.shape)
        flag = self.step(o, "Cast", [flag], flag.shape, np.int32, to=6)
        if not static or math.prod(flag.shape) != 1:
            axes = self.constant(np.arange(len(flag.shape)))
            flag = self.step(o, "ReduceMax", [flag, axes], (), np.int32, keepdims=0)
            if not static:  # the largest of no elements is the least number
                flag = self.step(o, "Max", [flag, self.constant(np.zeros((), np.int32))], (), np.int32)
        flag = self.step(o, "Reshape", [flag, self.constant(np.array([1]))], (1,), np.int32)
        self.checks.append((flag, [f"operator '{o.op}'{_where(o)}: {message}"]))

    def outputs_of(self, o: Op, rules: Sequence[Rule]) -> list[Value]:
        """Return the values that replace the outputs of an operator of the old graph."""
        self._current = o
        try:
            return super().outputs_of(o, rules)
        except TraceError as error:
            raise refused(o, error.message) from error
        except (IndexError, ValueError) as error:  # an argument of a wrong rank
            raise refused(o, str(error)) from error

    def steps(self, o: Op, function: Function, arguments: Sequence[Value | Array | float | None]) -> list[Value]:
        """Append what a function records: see Rewriter. Its divisions are added to `divisions`."""
        first = len(self.graph.ops)
        values = super().steps(o, function, arguments)
        self.divisions += [d.outputs[0] for d in self.graph.ops[first:] if d.op == "Div"]
        return values


def corrected(
    graph: Graph,
    engine: str,
    *,
    checking: bool = False,
    marked: Sequence[Value] = (),
    log: RuleLog | None = None,
    input_intervals: Mapping[Value, Interval] | None = None,
    is_body: bool = False,
) -> Corrected:
    """Return an equal graph that an engine computes correctly. The given graph is not changed.

    checking: whether the graph may get an additional output for checks: see Corrected.
    marked, input_intervals, is_body: as in Corrector. log: gets the trials of the corrections.

    Raises EngineError where the engine computes an operator wrongly and no other operators can replace it.
    """
    inside: list[Value] = []
    checks: list[tuple[Value, Sequence[str]]] = []

    def loop(o: Op, body: Graph) -> Op:
        bounds = intervals_of_body(o, body, intervals.of_all(graph.ops))
        fixed = corrected(
            body, engine, checking=checking, marked=marked, log=log, input_intervals=bounds, is_body=True
        )
        inside.extend(fixed.divisions)
        if not fixed.checks:
            return replace(o, body=fixed.graph)
        o = _with_flags(o, fixed)
        checks.append((o.outputs[o["states"] - 1], fixed.checks))
        return o

    graph = lowered(graph, engine)  # the parts of an operator may be computed wrongly, too
    intervals = Intervals(graph.producers, narrow=True, inputs=input_intervals)
    graph = graph.with_loops(loop)
    rules = _rules_of(graph, engine, log)
    operators = {op for r in rules for op in r.ops}
    if ANY not in operators and not any(o.op in operators for o in graph.ops):
        return Corrected(graph, divisions=inside)
    *first, (last, _) = CORRECTED
    new = Corrector(graph, checking, marked, log, input_intervals, is_body)
    result = new.run([r for stage, _ in first for r in rules if r.stage == stage])
    new.checks += [(new.values[v], messages) for v, messages in checks]
    if new.checks:
        flags = [flag for flag, _ in new.checks]
        messages = [text for _, texts in new.checks for text in texts]
        result.outputs = result.outputs + result.emit(
            "Concat", flags, [((len(messages),), np.int32)], {"axis": 0}, scope="", place=""
        )
    result.drop_dead()
    choose = chooser([r for r in _rules_of(result, engine, log) if r.stage == last])
    for o in [*result.ops, Op(END, [*result.outputs], [])]:
        for r in choose(o):
            r.apply(new, o)
    return Corrected(result, [text for _, texts in new.checks for text in texts], new.divisions + inside)


def _with_flags(o: Op, fixed: Corrected) -> Op:
    """Return a loop whose body has checks. An additional last state holds what they have found in any step."""
    states, body, count = o["states"], fixed.graph.twin(), len(fixed.checks)
    *outputs, flags = body.outputs
    before, after, result = (Value(body.name("flags"), (count,), flags.dtype) for _ in range(3))
    body.ops = [*body.ops, Op("Max", [before, flags], [after], {}, o.place)]
    body.producers = {**body.producers, after: body.ops[-1]}
    body.inputs = [*body.inputs[: 2 + states], before, *body.inputs[2 + states :]]
    body.outputs = [*outputs[: 1 + states], after, *outputs[1 + states :]]
    zeros = body.constant(np.zeros(count, flags.dtype))
    return replace(
        o,
        inputs=[*o.inputs[: 2 + states], zeros, *o.inputs[2 + states :]],
        outputs=[*o.outputs[:states], result, *o.outputs[states:]],
        attrs={**o.attrs, "states": states + 1},
        body=body,
    )


def _rules_of(graph: Graph, engine: str, log: RuleLog | None) -> list[Rule]:
    """Return the corrections of an engine: those for the operators of a graph, or all for a log."""
    load_rules("corrections", None if log is not None else graph, engine)
    return [r for r in RULES if r.kind == "must" and engine in r.targets]


def refused(o: Op, why: str) -> EngineError:
    """Return the error of an operator that cannot be corrected."""
    return EngineError(f"operator '{o.op}'{_where(o)} is computed wrongly by this engine: {why}")


def _where(o: Op) -> str:
    return f" (layer '{o.scope}')" if o.scope else ""
