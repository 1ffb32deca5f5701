"""The declaration of rules, and the graph that rules write.

A rule replaces operators. It says which ones, for which targets, and whether it must be applied. It is a function
of the graph that is written and of one operator, whose inputs are rewritten already. It returns the values that
replace the operator's outputs, or another operator that the next rules get in its place, or None to leave the
operator to them. It is registered by `rule`; a rule that can be stated as two NumPy functions, by
`optimize.patterns.rewrite`. The order of rules is in optimize/order.py.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial, wraps
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np

from anylayer import graph
from anylayer.graph.facts import producer, values_before
from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.operators import SUMS, is_discontinuous
from anylayer.graph.sizes import is_static
from anylayer.network import Array, Function
from anylayer.optimize.new_graph import NewGraph
from anylayer.optimize.order import position
from anylayer.tracing import trace

if TYPE_CHECKING:
    from anylayer.graph.intervals import Intervals

F4 = np.dtype(np.float32)

_F = TypeVar("_F", bound=Function)
Kind = Literal["exact", "faster", "must"]
ANY, END = "any", "end"
"""A rule for ANY is tried on every operator, also of other domains, and at the end on an operator END. Its inputs
are the graph's outputs."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A rule that is stated as NumPy functions: see optimize.patterns. `kinds` has the kind of each parameter."""

    befores: tuple[Function, ...]
    after: Function
    kinds: tuple[str, ...]
    when: Function | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: the function `apply`, which is tried on each operator of a type in `ops`.

    kind: "exact" if the rule keeps every bit of a result, "faster" if it may change last bits, "must" if the
        target computes the operator wrongly or not at all.
    targets: the engines, or other targets, that it is for; all where empty.
    stage: the stage of optimize.order that applies it.
    figure: the measured times before and after the rule, as text.
    stated: the NumPy functions from which the rule is made, if it is.
    """

    ops: tuple[str, ...]
    apply: Function
    kind: Kind = "exact"
    targets: frozenset[str] = frozenset()
    stage: str = "reduce"
    figure: str = ""
    stated: Stated | None = None

    @property
    def position(self) -> int:
        """The position of the rule's file in optimize.order."""
        return position(self.apply.__module__)

    def suits(self, target: str | None, *, exact: bool = False) -> bool:
        """Return whether the rule is for a target. exact: whether last bits must be kept."""
        return (not self.targets or target in self.targets) and not (exact and self.kind == "faster")


RULES: list[Rule] = []
"""The rules of the files that are loaded, in the order of optimize.order. If several rules apply to an operator,
the first one is used."""


def rule(
    *ops: str,
    kind: Kind = "exact",
    targets: Sequence[str] = (),
    stage: str = "",
    figure: str = "",
    stated: Stated | None = None,
) -> Callable[[_F], _F]:
    """Register the decorated function as a rule for operators `ops`. The other arguments are as in Rule.

    stage: by default "correct" or "faster" for a rule of kind "must" or "faster", "last" for one that some targets
        alone have, else "reduce".
    """
    default = {"must": "correct", "faster": "faster"}.get(kind, "last" if targets else "reduce")

    def enter(apply: _F) -> _F:
        new = Rule(ops, apply, kind, frozenset(targets), stage or default, figure, stated)
        insort(RULES, new, key=lambda r: r.position)
        return apply

    return enter


def formula(
    *ops: str,
    when: Callable[[Op], bool] = lambda o: True,
    targets: Sequence[str] = (),
    stage: str = "",
    figure: str = "",
) -> Callable[[_F], _F]:
    """Register the decorated NumPy function of an operator and of its inputs as a rule that must be applied: what
    it records replaces the operator, where `when` returns True. The other arguments are as in `rule`.
    """

    def enter(function: _F) -> _F:
        @wraps(function)
        def apply(new: Rewriter, o: Op) -> list[Value] | None:
            return new.record(o, partial(function, o), arguments(o)) if when(o) else None

        rule(*ops, kind="must", targets=targets, stage=stage, figure=figure)(apply)
        return function

    return enter


def arguments(o: Op) -> list[Value | Array | None]:
    """Return the inputs of an operator, constants as arrays."""
    return [v if v is None or v.const is None else v.const for v in o.inputs]


def chooser(rules: Sequence[Rule]) -> Callable[[Op], Sequence[Rule]]:
    """Return a function that returns the rules for an operator, in their order."""

    @cache
    def rules_for(op: str) -> Sequence[Rule]:
        return [r for r in rules if op in r.ops or ANY in r.ops]

    return lambda o: rules_for("" if o.domain else o.op)


@dataclass(slots=True)
class Trial:
    """A rule that was tried on an operator. reason: why it does not apply, "" where it does not say so."""

    rule: Rule
    op: Op
    applied: bool
    reason: str


class RuleLog:
    """The trials of rules, also of those for other targets. These are tried on operators that stay as they are."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.others: Callable[[Op], Sequence[Rule]] = lambda o: ()

    def add_others(self, new: Rewriter, old: Op, o: Op) -> None:
        """Add the rules that would apply to an operator for other targets, or if last bits could change."""
        for r in self.others(o):
            if r.apply(new, o) is not None:
                only = " and ".join(sorted(r.targets))
                self.trials.append(Trial(r, old, False, f"it is for {only} only" if only else "last bits change"))


class Producing(Protocol):
    """An object that finds producers, such as a Rewriter."""

    def producer(self, value: Value | None, op: str = "") -> Op | None:
        """Return the operator that produces a value, if it is an `op`."""


class Rewriter(NewGraph):
    """A graph under construction, to which rules append operators."""

    def __init__(self, graph: Graph, log: RuleLog | None = None) -> None:
        super().__init__(graph)
        self.log = log
        self.reason = ""
        self.old = graph
        self._old_uses = Counter(v for o in graph.ops for v in o.inputs)
        self._old_uses.update(graph.outputs)
        self._uses: Counter[Value] = Counter()

    # -------------------------------------------------------------------- facts

    def producer(self, value: Value | None, op: str = "") -> Op | None:
        """Return the ONNX operator that produces a value, if it is an `op`: see graph.facts.producer."""
        return producer(self.graph.producers, value, op)

    def operands(self, source: Value | Op | None, op: str) -> list[Value] | None:
        """Return the inputs of `source`, an operator or its first output.

        Returns None where it is another operator than `op`, and where an input is absent.
        """
        operator = source if isinstance(source, Op) else self.producer(source, op)
        if operator is None or operator.op != op:
            return None
        values = [v for v in operator.inputs if v is not None]
        return values if len(values) == len(operator.inputs) else None

    @cached_property
    def intervals(self) -> Intervals:
        """The intervals of the new graph's values."""
        return graph.intervals.Intervals(self.graph.producers)

    @cached_property
    def _old_consumers(self) -> dict[Value, list[Op]]:
        consumers: dict[Value, list[Op]] = {}
        for o in self.old.ops:
            for v in o.inputs:
                if v is not None:
                    consumers.setdefault(v, []).append(o)
        return consumers

    def old_consumers(self, value: Value) -> list[Op] | None:
        """Return the operators that use a value of the old graph, or None for an output of the graph."""
        return None if value in self.old.outputs else self._old_consumers.get(value, [])

    @cached_property
    def _before_steps(self) -> set[Value]:
        def is_step(o: Op) -> bool:
            return bool(o.domain) or is_discontinuous(o)

        return values_before(self.old.ops, is_step, lambda o: o not in SUMS)

    @cached_property
    def before_divisors(self) -> set[Value]:
        """The float values of the old graph that are divisors, or from which divisors are computed. There the sign
        of a zero decides the sign of an infinity. The search ends at operators that sum many elements.
        """

        def is_division(o: Op) -> bool:
            return not o.domain and o.op == "Div"

        return values_before(self.old.ops, is_division, lambda o: o not in SUMS, kind="f", index=1)

    def feeds_step(self, o: Op) -> bool:
        """Return whether the last bit of the operator's result can change the result of a discontinuous operator.

        The search ends at operators that sum many elements.
        """
        is_last = not any(v in self._before_steps for v in o.outputs)
        return not self.holds(is_last, "its last bits can change a later comparison, rounding or selection")

    def has_one_use(self, value: Value) -> bool:
        """Return whether exactly one operator or output of the old graph uses a value.

        False for values between the operators that a rule has appended.
        """
        return self.holds(self._uses[value] == 1, f"value '{value.name}' has other consumers")

    def is_float32(self, o: Op) -> bool:
        """Return whether an operator's outputs and computed inputs are float32 with static shapes."""
        return self.holds(is_float32(o), "its values are not float32, or have dynamic sizes")

    def holds(self, condition: bool, otherwise: str) -> bool:
        """Return a condition of a rule. If it is false, `otherwise` is the reason why the rule does not apply."""
        if not condition:
            self.reason = otherwise
        return condition

    # ------------------------------------------------------------------ writing

    def run(self, rules: Sequence[Rule]) -> Graph:
        """Write the graph with these rules, each tried on each operator in this order, and return it."""
        choose = chooser(rules)
        for o in self.old.ops:
            self.bind(o.outputs, self.outputs_of(o, choose(o)))
        self.graph.outputs = [v for v in map(self.mapped, self.old.outputs) if v is not None]
        end = Op(END, [*self.old.outputs], [])
        self.outputs_of(end, choose(end))
        return self.graph

    def outputs_of(self, o: Op, rules: Sequence[Rule]) -> list[Value]:
        """Return the values that replace the outputs of an operator of the old graph."""
        inputs = [self.mapped(v) for v in o.inputs]
        if not rules and self.log is None:
            return self.graph.append_copy(o, inputs)
        here = replace(o, inputs=inputs)
        for r in rules:
            self.reason = ""
            values: list[Value] | Op | None = r.apply(self, here)
            if self.log is not None:
                self.log.trials.append(Trial(r, o, values is not None, self.reason))
            if isinstance(values, list):
                return values
            here = values or here
        if self.log is not None:
            self.log.add_others(self, o, here)
        return self.graph.append_copy(here, here.inputs)

    def mapped(self, value: Value | None) -> Value | None:
        """Return the new graph's value for one of the old graph. A constant is added on first use."""
        if value is None:
            return None
        new_value = self.values.get(value)
        if new_value is None:
            if value.const is None:
                raise ValueError(f"{value!r} is computed by no operator of the graph")
            new_value = self.values[value] = self.graph.constant(value.const, trusted=True)
        return new_value

    def bind(self, old: Sequence[Value], new: Sequence[Value]) -> None:
        """Record that values of the old graph are replaced by these values of the new graph."""
        for v, w in zip(old, new):
            self.values[v] = w
            self._uses[w] += self._old_uses[v]

    def emit(self, o: Op, op: str, inputs: Sequence[Value | None], **attrs: Any) -> list[Value]:
        """Append an operator that replaces `o`: its outputs have the types and names of those of `o`."""
        return self.graph.emit(
            op,
            inputs,
            [(v.shape, v.dtype) for v in o.outputs],
            attrs,
            place=o.place,
            scope=o.scope,
            names=[v.name for v in o.outputs],
        )

    def step(
        self,
        o: Op,
        op: str,
        inputs: Sequence[Value | None],
        shape: Sequence[Any] | None = None,
        dtype: Any = None,
        **attrs: Any,
    ) -> Value:
        """Append an intermediate operator with one output, which a rule needs to replace `o`.

        shape, dtype: of the output; those of the output of `o` if they are None.
        """
        out = o.outputs[0]
        kind = (out.shape if shape is None else tuple(shape), out.dtype if dtype is None else np.dtype(dtype))
        return self.graph.emit(op, inputs, [kind], attrs, place=o.place, scope=o.scope)[0]

    def reshape(self, o: Op, x: Value, shape: Sequence[int]) -> Value:
        """Return `x` in another shape, as an intermediate value of a rule that replaces `o`. A Reshape before it
        is left out."""
        parts = self.operands(x, "Reshape")
        if parts is not None and is_static(parts[0].shape):
            x = parts[0]
        shape = tuple(shape)
        if x.shape == shape:
            return x
        return self.step(o, "Reshape", [x, self.ints(shape)], shape, x.dtype)

    def result(self, o: Op, x: Value) -> list[Value]:
        """Return `x` as the output that replaces that of `o`, reshaped if the shapes differ."""
        out = o.outputs[0]
        if x.shape == out.shape:
            return [x]
        return self.emit(o, "Reshape", [x, self.ints(out.shape)])

    def record(self, o: Op, function: Function, arguments: Sequence[Value | Array | float | None]) -> list[Value]:
        """Append the operators that a NumPy function records in place of `o`, and return its results as values
        with the names of the outputs of `o`: see `steps`.
        """
        first = len(self.graph.ops)
        values = self.steps(o, function, arguments)
        new = {v for inner in self.graph.ops[first:] for v in inner.outputs}
        for value, out in zip(values, o.outputs):
            if value in new:
                self.graph.rename(value, out.name)
        return values

    def steps(self, o: Op, function: Function, arguments: Sequence[Value | Array | float | None]) -> list[Value]:
        """Append the intermediate operators that a NumPy function records, and return its results as values.

        arguments: values are passed as traced arrays, everything else as it is.

        The new operators have the place and scope of `o`. Raises TraceError where the function cannot be traced.
        """
        inputs = list(dict.fromkeys(a for a in arguments if isinstance(a, Value)))

        def called(arrays: list[Any]) -> list[Any]:
            traced = dict(zip(inputs, arrays))
            results = function(*[traced[a] if isinstance(a, Value) else a for a in arguments])
            return list(results) if isinstance(results, (list, tuple)) else [results]

        body = trace(called, [v.type for v in inputs])
        for inner in body.ops:
            inner.place = o.place
        return self.graph.inline(body, inputs, scope=o.scope)

    def compute(self, o: Op, function: Function) -> list[Value] | None:
        """Replace an operator by what a NumPy function of its inputs records: see `record`.

        The function gets None for an absent input, an array for a constant, and a traced array for any other
        input. It returns the outputs. Returns None where all inputs are constants. Raises ValueError for other
        dtypes or ranks.
        """
        if all(v is None or v.const is not None for v in o.inputs):
            return None
        values = self.record(o, function, arguments(o))
        for got, want in zip(values, o.outputs):
            if got.dtype != want.dtype or len(got.shape) != len(want.shape):
                raise ValueError(f"{got.type} in place of {want.type}")
        return values[: len(o.outputs)]


def is_float32(o: Op) -> bool:
    """Return whether an operator's outputs and computed inputs are float32 with static shapes."""
    values = [v for v in o.inputs if v is not None and v.const is None]
    return all(v.dtype == F4 and is_static(v.shape) for v in [*values, *o.outputs])
