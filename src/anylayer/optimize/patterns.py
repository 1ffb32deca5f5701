"""Rewrites stated as two NumPy functions: what a graph computes before, and what it computes after.

    @rewrite(lambda x, c: ops.leaky_relu(x, c), figure="...")
    def _relu_and_minimum(x: Array, c: float) -> Any:
        \"\"\"Compute relu(x) + c * min(x, 0) by LeakyRelu.\"\"\"
        return ops.relu(x) + c * np.minimum(x, 0)

The decorated function is the pattern. It is elementwise, is traced once, and is found wherever operators of a
graph compute the same, up to the order of the operands of commutative operators. Its parameters stand for

    x: Array     a float32 array with a static shape; the first one is computed and has the shape of the result
    c: float     a float32 constant of one element; passed to the other functions as a float
    s: Constant  a float32 constant of any shape

and a number that is written in the pattern stands for a constant of one element within a relative 1e-6. Values
between the pattern's operators may have other uses: they are then still computed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anylayer.graph.facts import Producers, is_number, number, producer
from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.sizes import is_static
from anylayer.network import Array, Function, TensorType
from anylayer.optimize.rules import F4, Kind, Rewriter, Stated, rule
from anylayer.tracing import trace

Constant = Array
"""The annotation of a parameter that stands for a constant array."""
_Found = Mapping[Value, Value]
_SHAPE = (2, 3)
_SWAPPED = {
    **{op: op for op in ("Add", "Mul", "Max", "Min", "Equal", "And", "Or")},
    "Greater": "Less",
    "Less": "Greater",
    "GreaterOrEqual": "LessOrEqual",
    "LessOrEqual": "GreaterOrEqual",
}
"""Operator -> the operator that computes the same with its two operands swapped."""
_INVERSE: dict[str, tuple[str, Callable[[float], float]]] = {
    "Mul": ("Div", lambda c: 1 / c),
    "Add": ("Sub", lambda c: -c),
}
"""Operator -> the operator that computes the same up to rounding with another constant as its second operand, and
the function that computes this constant."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A traced pattern. `kinds` has one of "array", "constant" and "number" for each of its inputs.

    With `loose`, x / c and x - c match a pattern x * d and x + d, and x * -1 matches -x.
    """

    graph: Graph
    kinds: tuple[str, ...]
    loose: bool

    @staticmethod
    def of(function: Function, kinds: Sequence[str], *, loose: bool = False) -> Pattern:
        """Trace a function of arrays."""
        types = [TensorType.of(_SHAPE if kind == "array" else (), F4) for kind in kinds]
        return Pattern(trace(lambda arrays: [function(*arrays)], types), tuple(kinds), loose)

    @property
    def root(self) -> Op:
        """The operator that computes the pattern's result."""
        return self.graph.producers[self.graph.outputs[0]]

    @property
    def roots(self) -> list[str]:
        """The operators at which the pattern can be found."""
        swapped, inverse = _SWAPPED.get(self.root.op), _INVERSE.get(self.root.op)
        names = [self.root.op, *([swapped] if swapped else []), *([inverse[0]] if inverse and self.loose else [])]
        return list(dict.fromkeys(names))

    def match(
        self, producers: Producers, o: Op, miss: Callable[[str], object] = lambda reason: None
    ) -> list[Value] | None:
        """Return the values that the pattern's inputs stand for where an operator computes its result.

        miss: a function that is called with the reason where a part of the pattern matches, but not all of it.
        """
        out = o.outputs[0]
        if out.dtype != F4 or not is_static(out.shape):
            return None
        search = _PatternSearch(self, producers, miss)
        for binding in search.operator(self.root, o, {}):
            values = [binding[v] for v in self.graph.inputs]
            if values[0].shape == out.shape:
                return values
        return None


class _PatternSearch:
    """The search for a pattern among the operators of a graph."""

    def __init__(self, pattern: Pattern, producers: Producers, miss: Callable[[str], object]) -> None:
        self.pattern, self.producers, self.miss = pattern, producers, miss
        self.matched = 0
        self.kinds = dict(zip(pattern.graph.inputs, pattern.kinds))

    def operator(self, wanted: Op, o: Op, found: _Found) -> Iterator[_Found]:
        """Yield a mapping from the pattern's values to the graph's for each way in which `o` matches `wanted`."""
        for operands in self._operands(wanted, o):
            yield from self._all(list(zip(wanted.inputs, operands)), found)

    def _operands(self, wanted: Op, o: Op) -> Iterator[Sequence[Value | None]]:
        if o.op == wanted.op and o.attrs == wanted.attrs and len(o.inputs) == len(wanted.inputs):
            yield o.inputs
        if len(wanted.inputs) == len(o.inputs) == 2 and _SWAPPED.get(wanted.op) == o.op:
            yield o.inputs[::-1]
        if not self.pattern.loose:
            return
        other, invert = _INVERSE.get(wanted.op, ("", None))
        c = number(o.inputs[1]) if o.op == other else None
        if invert is not None and c:
            constant = Value("", (), F4, np.array(invert(c)))  # float64: rounded where it is used
            yield [o.inputs[0], constant]
            yield [constant, o.inputs[0]]
        if wanted.op == "Neg" and o.op == "Mul":
            yield from ([x] for x, minus in (o.inputs, o.inputs[::-1]) if is_number(minus, -1))

    def _all(self, pairs: Sequence[tuple[Value | None, Value | None]], found: _Found) -> Iterator[_Found]:
        if not pairs:
            yield found
            return
        wanted, value = pairs[0]
        for more in self._value(wanted, value, found):
            yield from self._all(pairs[1:], more)

    def _value(self, wanted: Value | None, value: Value | None, found: _Found) -> Iterator[_Found]:
        if wanted is None or value is None:
            if wanted is value:
                yield found
        elif wanted in found:
            if found[wanted] is value:
                yield found
        elif wanted in self.kinds:
            if self._stands_for(wanted, value):
                yield {**found, wanted: value}
            else:
                self._miss(found, f"'{value.name}' is not a {self.kinds[wanted]} in float32")
        elif wanted.const is not None:
            number = float(wanted.const.reshape(()))
            if is_number(value, number):
                yield found
            elif value.const is not None:
                self._miss(found, f"'{value.name}' is not the number {number:g}")
        else:
            o = producer(self.producers, value)
            if o is None or o.op != self.pattern.graph.producers[wanted].op:
                self._miss(found, f"'{value.name}' is not computed by {self.pattern.graph.producers[wanted].op}")
            if o is not None and value.dtype == wanted.dtype:
                for more in self.operator(self.pattern.graph.producers[wanted], o, found):
                    yield {**more, wanted: value}

    def _miss(self, found: _Found, reason: str) -> None:
        """Report a mismatch if an operator of the pattern has matched, and more values than before others."""
        if len(found) > self.matched and any(v in self.pattern.graph.producers for v in found):
            self.matched = len(found)
            self.miss(reason)

    def _stands_for(self, wanted: Value, value: Value) -> bool:
        kind = self.kinds[wanted]
        if value.dtype != F4 or not is_static(value.shape):
            return False
        if kind == "array":
            return value.const is None or wanted is not self.pattern.graph.inputs[0]
        return value.const is not None and (kind == "constant" or value.const.size == 1)


def rewrite(
    after: Function,
    *,
    also: Sequence[Function] = (),
    when: Function | None = None,
    kind: Kind = "exact",
    targets: Sequence[str] = (),
    stage: str = "",
    figure: str = "",
) -> Callable[[Function], Function]:
    """Register a rule that replaces the decorated function of NumPy arrays by another one.

    after: a function of the same parameters, which gets traced arrays and floats. It returns an array of the same
        shape and dtype.
    also: further functions of the same parameters that compute the same; each is replaced too.
    when: a function of the parameters that are numbers; the rule applies where it returns True.
    kind, targets, stage, figure: as in optimize.rules.rule. Patterns of a rule of kind "faster" are matched
        loosely: see Pattern.
    """

    def enter(before: Function) -> Function:
        kinds = [_parameter(p.annotation) for p in inspect.signature(before).parameters.values()]
        patterns = [Pattern.of(function, kinds, loose=kind == "faster") for function in (before, *also)]
        stated = Stated((before, *also), after, tuple(kinds), when)

        @functools.wraps(before)
        def replace(new: Rewriter, o: Op) -> list[Value] | None:
            for pattern in patterns:
                values = pattern.match(new.graph.producers, o, functools.partial(new.holds, False))
                if values is None:
                    continue
                arguments = [_argument(v, kind) for v, kind in zip(values, kinds)]
                numbers = [a for a, kind in zip(arguments, kinds) if kind == "number"]
                if new.holds(when is None or bool(when(*numbers)), f"it does not hold for {numbers}"):
                    return new.record(o, after, arguments)
            return None

        roots = dict.fromkeys(op for pattern in patterns for op in pattern.roots)
        rule(*roots, kind=kind, targets=targets, stage=stage, figure=figure, stated=stated)(replace)
        return before

    return enter


def _parameter(annotation: Any) -> str:
    """Return what a parameter stands for, by its annotation, which is text."""
    return {"float": "number", "Constant": "constant", "Array": "array"}[annotation]


def _argument(value: Value, kind: str) -> Any:
    if kind == "array":
        return value
    return value.const if kind == "constant" else number(value)
