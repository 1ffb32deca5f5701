"""How corrections are registered and applied.

A correction gets one operator, whose inputs are corrected already. It returns the values that replace the
operator's outputs, or None to leave the operator as it is. It raises EngineError where the engine computes the
operator wrongly and no other operators can replace it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from anylayer.errors import EngineError, TraceError
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import values_before
from anylayer.graph.intervals import Interval, Intervals
from anylayer.graph.operators import is_discontinuous
from anylayer.network import Array
from anylayer.optimize.rules import Rewriter
from anylayer.tracing import trace

Correction = Callable[["Corrector", Op], "list[Value] | None"]

_SMALL = 4096
"""The number of elements of the largest constant that is searched for infinite values."""

CORRECTIONS: dict[str, dict[str, list[Correction]]] = {}
"""Engine -> operator -> its corrections. The first one that returns values is applied."""


def correction(engine: str, *ops: str) -> Callable[[Correction], Correction]:
    """Register the decorated function as a correction of operators `ops` for an engine."""

    def enter(rewrite: Correction) -> Correction:
        for op in ops:
            CORRECTIONS.setdefault(engine, {}).setdefault(op, []).append(rewrite)
        return rewrite

    return enter


_VIEWS = frozenset(("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"))
_ELEMENTWISE = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Neg", "Abs", "Max", "Min", "Clip", "Where", "Sqrt", "Cast", "Relu", "Pow"),
        *("Reshape", "Transpose", "Slice", "Split", "Squeeze", "Unsqueeze", "Expand", "Concat", "Identity", "Pad"),
        *("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Tile"),
    )
)
"""Operators of which each result depends on one element of each input."""

BEFORE: dict[str, list[Callable[[Corrector, Op | None, Sequence[Value]], None]]] = {}
"""Engine -> functions that are called before each operator is corrected, with the operator and its inputs, and at
the end with None and the graph's outputs."""

INPUTS: dict[str, list[Callable[[Corrector, Op], Op]]] = {}
"""Engine -> functions that return an operator with other inputs, before it is corrected."""

REQUIREMENTS: dict[str, list[Callable[[Graph], None]]] = {}
"""Engine -> functions that raise EngineError where the engine computes a corrected graph wrongly."""


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

    `approximate` maps integers of 64 bits that may need more than 32 bits to the same numbers in float32.
    `checked` holds those of them for which there is a check.
    """

    def __init__(self, graph: Graph, engine: str, checking: bool) -> None:
        super().__init__(graph)
        self._hooks = BEFORE.get(engine, ())
        self._changes = INPUTS.get(engine, ())
        self._current: Op | None = None
        self.checking = checking
        self.checks: list[tuple[Value, str]] = []
        self.divisions: list[Value] = []
        self.approximate: dict[Value, Value] = {}
        self.checked: set[Value] = set()

    @cached_property
    def old_intervals(self) -> Intervals:
        """The intervals of the old graph's values."""
        return Intervals(self._old.producers, narrow=True).of_all(self._old.ops)

    @cached_property
    def before_steps(self) -> set[Value]:
        """The float values of the old graph whose last bits can decide the result of a discontinuous operator.

        They do so through operators that keep each element apart.
        """
        ops = self._old.ops
        return values_before(ops, is_discontinuous, lambda o: not o.domain and o.op in _ELEMENTWISE, kind="f")

    @cached_property
    def second_factors(self) -> set[Value]:
        """The values of the old graph that reach the second factor of a convolution or product as views."""

        def is_product(o: Op) -> bool:
            return not o.domain and o.op in ("Conv", "MatMul", "Gemm")

        def moves(o: Op) -> bool:
            return not o.domain and (o.op in _VIEWS or o.op == "Transpose")

        return values_before(self._old.ops, is_product, moves, kind="f", index=1)

    @cached_property
    def has_infinity(self) -> bool:
        """Whether a constant of the old graph with at most 4096 elements has an infinite one."""
        constants = (v.const for o in self._old.ops for v in o.inputs if v is not None and v.const is not None)
        return any(c.dtype.kind == "f" and c.size <= _SMALL and np.isinf(c).any() for c in constants)

    def interval(self, i: int) -> Interval:
        """Return the interval of input `i` of the operator that is being corrected."""
        value = self.old.inputs[i]
        return (-math.inf, math.inf) if value is None else self.old_intervals.of(value)

    @property
    def old(self) -> Op:
        """The operator that is being corrected, of the old graph."""
        if self._current is None:
            raise ValueError("no operator is being corrected")
        return self._current

    def call_hooks(self, o: Op | None, values: Sequence[Value]) -> None:
        """Call the engine's functions of BEFORE with an operator, or None, and values."""
        for hook in self._hooks:
            hook(self, o, values)

    def unfused(self, o: Op, value: Value) -> Value:
        """Return a maximum of a value and the lowest one, which OpenVINO does not fuse with operators around it.

        `o` is the operator that is corrected. OpenVINO's maximum returns its second input for NaN, so NaN stays.
        """
        lowest: float = -np.inf
        if value.dtype.kind != "f":
            lowest = max(np.iinfo(value.dtype).min, np.iinfo(np.int32).min)
        constant = self.constant(np.array(lowest, value.dtype))
        return self.step(o, "Max", [constant, value], value.shape, value.dtype)

    def is_concatenation(self, value: Value) -> bool:
        """Return whether a value is the output of Concat or Tile, or a view of one."""
        source = self.producer(value)
        while source is not None and source.op in _VIEWS:
            source = self.producer(source.inputs[0])
        return source is not None and source.op in ("Concat", "Tile")

    def magnitude(self, o: Op, value: Value) -> Value:
        """Return |value| for the correction of `o`. OpenVINO writes the result of Abs over a concatenation."""
        if not self.is_concatenation(value):
            return self.step(o, "Abs", [value], value.shape, value.dtype)
        negative = self.step(o, "Neg", [value], value.shape, value.dtype)
        return self.step(o, "Max", [value, negative], value.shape, value.dtype)

    def as_float32(self, o: Op, value: Value) -> Value:
        """Return a value in float32, for the correction of `o`."""
        if value.dtype == np.float32:
            return value
        if value.const is not None:
            return self.constant(np.asarray(value.const, np.float32))
        return self.step(o, "Cast", [value], value.shape, np.float32, to=1)

    def check(self, o: Op, flag: Value, message: str) -> None:
        """Add a check: the engine raises an error with this message if an element of a boolean array is true."""
        found = self.step(o, "Cast", [flag], flag.shape, np.int32, to=6)
        if len(flag.shape):
            axes = self.constant(np.arange(len(flag.shape)))
            found = self.step(o, "ReduceMax", [found, axes], (), np.int32, keepdims=0)
        found = self.step(o, "Reshape", [found, self.constant(np.array([1]))], (1,), np.int32)
        self.checks.append((found, f"operator '{o.op}'{_where(o)}: {message}"))

    def correct(self, o: Op, rules: Sequence[Correction]) -> list[Value]:
        """Return the values that replace the outputs of an operator of the old graph."""
        self._current = o
        here = replace(o, inputs=[self.mapped(v) for v in o.inputs])
        for change in self._changes if not o.domain else ():
            here = change(self, here)
        self.call_hooks(here, [v for v in here.inputs if v is not None])
        if not o.domain:
            for rule in rules:
                try:
                    values = rule(self, here)
                except (IndexError, ValueError) as error:  # an argument of a wrong rank
                    raise refused(o, str(error)) from error
                if values is not None:
                    return values
        return self.graph.append_copy(here, here.inputs)


def corrected(graph: Graph, engine: str, *, checking: bool = False) -> Corrected:
    """Return an equal graph that an engine computes correctly. The given graph is not changed.

    checking: whether the graph may get an additional output for checks: see Corrected.

    Raises EngineError where the engine computes an operator wrongly and no other operators can replace it.
    """
    rules = CORRECTIONS.get(engine, {})
    done = rewritten(graph, engine, rules, checking) if any(o.op in rules for o in graph.ops) else Corrected(graph)
    for require in REQUIREMENTS.get(engine, ()):
        require(done.graph)
    return done


def rewritten(graph: Graph, engine: str, rules: Mapping[str, Sequence[Correction]], checking: bool) -> Corrected:
    """Return the graph after these corrections, by operator."""
    new = Corrector(graph, engine, checking)
    for o in graph.ops:
        new.bind(o.outputs, new.correct(o, rules.get(o.op, ())))
    new.graph.outputs = [v for v in map(new.mapped, graph.outputs) if v is not None]
    new.call_hooks(None, new.graph.outputs)
    if new.checks:
        flags = [flag for flag, _ in new.checks]
        new.graph.outputs += new.graph.emit("Concat", flags, [((len(flags),), np.int32)], {"axis": 0})
    new.graph.drop_dead()
    return Corrected(new.graph, [message for _, message in new.checks], new.divisions)


def respelled(new: Corrector, o: Op, function: Callable[..., Any]) -> list[Value] | None:
    """Replace an operator by what a function of its inputs records. Return None where all inputs are constants.

    The function gets None for an absent input, an array for a constant, and a traced array for any other input. It
    returns the outputs. Raises EngineError where it cannot be traced, or returns other dtypes or ranks.
    """
    free = [v for v in o.inputs if v is not None and v.const is None]
    if not free:
        return None

    def call(arrays: list[Any]) -> list[Array]:
        left = iter(arrays)
        results = function(*[None if v is None else next(left) if v.const is None else v.const for v in o.inputs])
        return [*results] if isinstance(results, (list, tuple)) else [results]

    try:
        body = trace(call, [v.type for v in free])
    except TraceError as error:
        raise refused(o, error.message) from error
    count = len(new.graph.ops)
    outputs = new.graph.inline(body, free, scope=o.scope)[: len(o.outputs)]
    new.divisions += [d.outputs[0] for d in new.graph.ops[count:] if d.op == "Div"]
    for got, want in zip(outputs, o.outputs):
        if got.dtype != want.dtype or len(got.shape) != len(want.shape):
            raise refused(o, f"{got.type} in place of {want.type}")
    return outputs


def refused(o: Op, why: str) -> EngineError:
    """Return the error of an operator that cannot be corrected."""
    return EngineError(
        f"operator '{o.op}'{_where(o)} is computed wrongly by this engine: {why}. Use engine 'onnxruntime'"
    )


def _where(o: Op) -> str:
    return f" (layer '{o.scope}')" if o.scope else ""
