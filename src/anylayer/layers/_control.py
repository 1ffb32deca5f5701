"""Operators that contain networks, of all formats: branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import ShapeError, TraceError, adding_advice, at, need, plural, wording
from anylayer.graph import TooManyOperators
from anylayer.graph.operators import WEIGHTED
from anylayer.graph.sized import elements_of
from anylayer.graph.sizes import is_static
from anylayer.layer import Bound, Definition, Layer, Registry, bind
from anylayer.layer.registry import registered
from anylayer.network import ABSENT, Array, Node, Subgraph, TensorType
from anylayer.tracing import constant_of, is_traced
from anylayer.tracing.loop_operator import MAX_STEPS as _STEPS
from anylayer.tracing.loop_operator import record_loop
from anylayer.tracing.primitives import gather
from anylayer.tracing.record import graph_of

MAX_STEPS = _STEPS
"""Limit on the steps of a Loop or a Scan."""
_TOO_MANY = "its loop exceeds the limit of {} steps; split it into loops of fewer steps"
_MAX_STEPS_IN_ALL = 2 * MAX_STEPS
"""Limit on the steps of a Loop or a Scan and of those inside it."""
_TOO_MANY_IN_ALL = (
    f"its loop and those inside it exceed the limit of {_MAX_STEPS_IN_ALL} steps; compute one with arrays"
)
_MAX_UNROLLED = 2000
"""Limit on the operators of a loop that is unrolled. An LSTM of 100 steps has 1,800 of them, and takes 1.0 ms
instead of 1.4 ms in a Loop (ONNX Runtime); one of 1,000 steps is compiled in 53 s instead of 0.1 s."""
_MAX_NESTED_STEPS = 10_000_000
"""Limit on the steps of a recorded loop times those of the loops around it."""
_around: ContextVar[int] = ContextVar("around", default=1)
"""The largest number of steps that the loops around take together."""
_left: ContextVar[list[int] | None] = ContextVar("left", default=None)
"""The number of steps that the running loops may still take, as a list of one element; None outside of loops."""


@contextmanager
def counting() -> Iterator[Callable[[], None]]:
    """Yield a function that counts a step. It raises LayerError above the limit of the outermost loop."""
    left = _left.get() or [_MAX_STEPS_IN_ALL]
    token = _left.set(left)

    def count() -> None:
        left[0] -= 1
        need(
            left[0] >= 0,
            f"its loop and those inside it exceed the limit of {_MAX_STEPS_IN_ALL} steps; use an engine",
        )

    try:
        yield count
    finally:
        _left.reset(token)


@contextmanager
def in_loop(times: int) -> Iterator[None]:
    """Trace what runs at most so many times in the loops around it."""
    token = _around.set(_around.get() * times)
    try:
        yield
    finally:
        _around.reset(token)


def _record_within_limits(
    step: Callable[[list[Any]], Sequence[Any]],
    limit: Any,
    condition: Any,
    states: Sequence[Any],
    others: Sequence[Any],
    *,
    always: bool = False,
) -> list[Array]:
    """Record a loop as `record_loop` does. If it takes more steps than the limits, it is refused, or ends with an
    index that engines refuse where its number of steps depends on data.
    """
    most = min(MAX_STEPS, _MAX_NESTED_STEPS // _around.get())
    fixed = None if limit is None or is_traced(limit) else int(np.asarray(limit).reshape(()))
    need(
        most and not (always and fixed is not None and fixed > most),
        f"its steps times those of the loops around it exceed the limit of {_MAX_NESTED_STEPS}; compute the inner "
        "one with whole arrays",
    )
    if fixed is not None and fixed > most:
        limit = fixed = None
    with in_loop(most if fixed is None else max(fixed, 1)):
        return record_loop(step, limit, condition, states, others, most, always=always)


def is_known_true(x: Array) -> bool:
    """Return whether a condition does not depend on data, and is true."""
    return not is_traced(x) and bool(np.all(x))


class Control(Layer):
    """An operator that runs the nodes of a network inside it."""

    family: ClassVar[str]
    """The format of the networks inside."""

    def prepare(self, node: Node, dialect: str | None) -> None:
        self._bounds: dict[Any, Bound] = {}
        super().prepare(node, dialect)

    def inside(self, graph: Subgraph, arguments: Sequence[Any], values: Sequence[Any]) -> list[Array]:
        """Return the outputs of a network inside the operator.

        arguments: the inputs that the operator passes to it. values: all inputs of the operator.
        """
        network, inputs = graph.network, [*arguments, *(values[i] for i in graph.captured)]
        need(
            len(inputs) == len(network.inputs),
            f"its graph '{network.name}' takes {plural(len(network.inputs), 'input')}, got {len(inputs)}",
        )
        arrays_by_name: dict[str, Any] = {**dict(zip(network.inputs, inputs)), "": None}
        for i, node in enumerate(network.nodes):
            arrays = [arrays_by_name[name] for name in node.inputs]
            types = tuple(ABSENT if x is None else TensorType(tuple(x.shape), x.dtype) for x in arrays)
            key = (id(network), i, *(None if x is None else _type_text(x) for x in arrays))
            if key not in self._bounds:
                with at(node.place):
                    self._bounds[key] = bind(node, self._definitions(node), types)
            arrays_by_name.update(zip(node.outputs, map(_without_trace, self._bounds[key](arrays))))
        return [arrays_by_name[name] for name in network.outputs.values()]

    def _definitions(self, node: Node) -> list[Definition]:
        users = registered()
        definitions = [users[node.type]] if node.type in users else Registry.of(self.family).find(node.type)
        need(
            definitions,
            f"'{node.type}' inside a graph is not defined; register a class for it with @anylayer.layer",
        )
        return definitions

    def branch(
        self, condition: Array, branches: Sequence[Subgraph], inputs: Sequence[Any], first: int
    ) -> list[Array]:
        """Return the outputs of one of two branches, the first for a true condition.

        inputs: all inputs of the operator. first: the number of the first one that it passes to the branches.
        """
        branches_inputs = [inputs[first : first + len(b.network.inputs) - len(b.captured)] for b in branches]
        if not is_traced(condition):
            i = 0 if _truth(condition, "its condition") else 1
            how = wording("constants={name: value} of read", "-i NAME=VALUE, or --constant NAME=VALUE")
            advice = f"the condition selects this branch; if an input decides it, give its value: {how}"
            with nullcontext() if graph_of(inputs) is not None else adding_advice(advice):
                return self.inside(branches[i], branches_inputs[i], inputs)
        graph = graph_of(inputs)
        before = 0 if graph is None else len(graph.ops)
        both: list[list[Array]] = []
        problems: dict[int, ShapeError] = {}
        for i, branch in enumerate(branches):
            try:
                both.append(self.inside(branch, branches_inputs[i], inputs))
            except ShapeError as error:
                problems[i] = error
        for i, problem in problems.items():
            if not both:
                raise problem
            return self._only(both[0], condition, i, problem)
        for a, b in zip(*both):
            if a.shape != b.shape or a.dtype != b.dtype:
                raise TraceError(
                    f"its branches return {tuple(a.shape)} and {tuple(b.shape)}, and the data select the branch"
                )
        if graph is None or not any(o in WEIGHTED or o.op == "Loop" for o in graph.ops[before:]):
            return [np.where(condition.reshape(()), a, b) for a, b in zip(*both)]
        results: list[Any] = [np.zeros(a.shape, a.dtype) for a in both[0]]
        for answer, branch, arguments in zip((True, False), branches, branches_inputs):

            def step(values: list[Any], branch: Subgraph = branch, count: int = len(arguments)) -> list[Array]:
                others = values[2 + len(both[0]) :]
                return [values[1], *self.inside(branch, others[first : first + count], others)]

            once = (condition.reshape(()) == answer).astype(np.int64)
            results = record_loop(step, once, None, results, inputs, MAX_STEPS)
        return results

    def _only(self, outputs: list[Array], condition: Array, other: int, problem: ShapeError) -> list[Array]:
        """Return the outputs of the only branch that can be computed. `other` is the index of the other one.

        A condition that selects the other branch becomes an index out of range, which engines refuse.
        """
        name = ("then_branch", "else_branch")[other]
        self.note(
            f"its {name} cannot be computed for these shapes: {problem}. Running the network with a condition "
            "that selects it raises an error"
        )
        index = np.where(condition.reshape(()), *((1, 0) if other == 0 else (0, 1)))
        return [gather(y[None], index, 0) for y in outputs]

    def loop(
        self,
        step: Callable[[list[Any]], Sequence[Any]],
        limit: Any,
        condition: Any,
        states: Sequence[Any],
        others: Sequence[Any],
        rows: int = 0,
        *,
        runs_on: bool = False,
    ) -> list[Array]:
        """Repeat `step`, or record it as one operator if the number of steps depends on data.

        The arguments are those of `record_loop`. rows: the number of results that are stacked. runs_on: whether
        the condition stays the same in each step.
        """
        inputs = [limit, condition, *states, *others]
        count = None if limit is None or is_traced(limit) else int(np.asarray(limit).reshape(()))
        if count is not None and count > MAX_STEPS and not runs_on:
            limit = count = None  # which refuses a loop that takes more steps than MAX_STEPS
        if is_traced(limit) or is_traced(condition):
            return _record_within_limits(step, limit, condition, states, others)
        go = condition is None or _truth(condition, "its condition")
        number, growth, results = 0, Growth(inputs), [*states]
        stacks: list[list[Any]] = [[] for _ in range(rows)]
        need(not (go and runs_on) or (count is not None and count <= MAX_STEPS), _TOO_MANY.format(MAX_STEPS))
        with counting() as count_step:
            while go and (count is None or number < count):
                count_step()
                with in_loop(number + 1):
                    again, *results = step(
                        [np.array(number, np.int64), np.array(True), *results[: len(states)], *others]
                    )
                expected = 1 + len(states) + rows
                need(
                    len(results) + 1 == expected,
                    f"its graph must return {expected} outputs, got {len(results) + 1}",
                )
                for row, value in zip(stacks, results[len(states) :]):
                    row.append(value)
                number += 1
                if is_traced(again):
                    return _record_within_limits(step, limit, condition, states, others)
                if runs_on and count is not None and growth.total(number, count) > _MAX_UNROLLED:
                    try:
                        return _record_within_limits(step, limit, condition, states, others, always=True)
                    except TraceError:  # for example, a state changes its shape
                        if not growth.has_room():
                            raise
                go = _truth(again, "its condition")
                need(number <= MAX_STEPS, _TOO_MANY.format(MAX_STEPS))
        need(number or not rows, "its loop runs 0 steps, so the sizes of its rows are unknown")
        return [*results[: len(states)], *map(stack, stacks)]


def _type_text(x: Array) -> str:
    """Return the dtype and the shape of an array as text. A size that depends on data has no hash."""
    return f"{x.dtype.str}{[str(getattr(d, 'expression', d)) for d in x.shape]}"


def _without_trace(x: Any) -> Any:
    """Return a traced constant as a NumPy array, as the nodes outside get it, and any other array itself."""
    constant = constant_of(x)
    return x if constant is None or elements_of(constant) is not None else constant


def stack(rows: Sequence[Any], axis: int = 0) -> Array:
    """Return the rows of all steps as one array."""
    if not all(is_static(row.shape) for row in rows):
        raise TraceError("the sizes of its rows are known only when the network runs")
    return np.stack(rows, axis)


def _truth(x: Array, what: str) -> bool:
    if is_traced(x):
        raise TraceError(f"{what} is known only when the network runs")
    return bool(np.asarray(x).reshape(()))


class Growth:
    """The number of operators that the steps of a loop record.

    The second step counts, because later steps share with the first what does not depend on the step.
    """

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._graph = graph_of(inputs)
        self._start = self._first = 0 if self._graph is None else len(self._graph.ops)
        self._sum = 0

    def total(self, step: int, steps: int) -> int:
        """Return, after step 2, how many operators all steps record, and 0 after others."""
        if self._graph is None or step > 2:
            return 0
        count = len(self._graph.ops)
        self._sum = count - self._start + (count - self._first) * (steps - 2) if step == 2 else 0
        self._first = count
        return self._sum

    def has_room(self) -> bool:
        """Return whether the graph has room for the operators that are expected."""
        return self._graph is None or self._start + self._sum <= self._graph.limit

    def need_room(self, step: int, steps: int) -> None:
        """Refuse the loop after step 2, if as many operators in each step exceed the limit of the graph."""
        if self.total(step, steps) and not self.has_room():
            raise TooManyOperators(f"its {steps} steps record more operators than the limit")
