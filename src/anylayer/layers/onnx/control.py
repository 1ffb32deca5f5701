"""If, Loop and Scan: operators that contain networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import numpy as np

from anylayer.errors import ShapeError, TraceError, adding_advice, at, need, plural, wording
from anylayer.graph import TooManyOperators
from anylayer.graph.sized import elements_of
from anylayer.layer import Bound, Definition, Layer, Registry, attribute, bind, layer
from anylayer.layer.registry import registered
from anylayer.layers.onnx._record import is_static
from anylayer.libraries.onnx import latest
from anylayer.network import ABSENT, Array, Network, Node, Subgraph, TensorType
from anylayer.tracing import constant_of, is_traced
from anylayer.tracing.loop_operator import record_loop
from anylayer.tracing.primitives import gather
from anylayer.tracing.record import graph_of

_MAX_STEPS = 30_000
"""Limit on the steps of a Loop or a Scan."""
_MAX_STEPS_IN_ALL = 2 * _MAX_STEPS
"""Limit on the steps of a Loop or a Scan and of those inside it."""
_left: ContextVar[list[int] | None] = ContextVar("left", default=None)
"""The number of steps that the running loops may still take, as a list of one element; None outside of loops."""


@contextmanager
def _counting() -> Iterator[Callable[[], None]]:
    """Yield a function that counts a step. It raises LayerError above the limit of the outermost loop."""
    left = _left.get() or [_MAX_STEPS_IN_ALL]
    token = _left.set(left)

    def count() -> None:
        left[0] -= 1
        need(left[0] >= 0, f"its loop and those inside it exceed the limit of {_MAX_STEPS_IN_ALL} steps")

    try:
        yield count
    finally:
        _left.reset(token)


class _Control(Layer):
    """An operator that runs the nodes of a network inside it."""

    message = "attribute"

    def prepare(self, node: Node, dialect: str | None) -> None:
        self._bounds: dict[Any, Bound] = {}
        self.version = node.version or latest()
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
                    self._bounds[key] = bind(node, _definitions(node), types)
            arrays_by_name.update(zip(node.outputs, map(_without_trace, self._bounds[key](arrays))))
        return [arrays_by_name[name] for name in network.outputs.values()]


def _type_text(x: Array) -> str:
    """Return the dtype and the shape of an array as text. A size that depends on data has no hash."""
    return f"{x.dtype.str}{[str(getattr(d, 'expression', d)) for d in x.shape]}"


def _without_trace(x: Any) -> Any:
    """Return a traced constant as a NumPy array, as the nodes outside get it, and any other array itself."""
    constant = constant_of(x)
    return x if constant is None or elements_of(constant) is not None else constant


def _definitions(node: Node) -> list[Definition]:
    users = registered()
    definitions = [users[node.type]] if node.type in users else Registry.of("onnx").find(node.type)
    need(definitions, f"'{node.type}' inside a graph is not defined; register a class for it with @anylayer.layer")
    return definitions


def _stack(rows: Sequence[Any], axis: int = 0) -> Array:
    """Return the rows of all steps as one array."""
    if not all(map(is_static, rows)):
        raise TraceError("the sizes of its rows are known only when the network runs")
    return np.stack(rows, axis)


def _truth(x: Array, what: str) -> bool:
    if is_traced(x):
        raise TraceError(f"{what} is known only when the network runs")
    return bool(np.asarray(x).reshape(()))


def _keeps_condition(network: Network) -> bool:
    """Return whether the body of a Loop returns the condition that it gets."""
    need(
        len(network.inputs) >= 2 and len(network.outputs) >= 1,
        "its body must have the step and the condition as inputs, and return a condition",
    )
    producers = {name: node for node in network.nodes for name in node.outputs}
    name = next(iter(network.outputs.values()))
    while (node := producers.get(name)) is not None and node.type == "Identity":
        name = node.inputs[0]
    return name == list(network.inputs)[1]


class _Growth:
    """The number of operators that the steps of a loop record.

    The second step counts, because later steps share with the first what does not depend on the step.
    """

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._graph = graph_of(inputs)
        self._first = 0

    def has_room(self, step: int, steps: int) -> bool:
        """Return whether the graph has room for as many operators in each further step as in the second."""
        if self._graph is None or step > 2:
            return True
        count, limit = len(self._graph.ops), self._graph.limit
        fits = step < 2 or count + (count - self._first) * (steps - 2) <= limit
        self._first = count
        return fits

    def need_room(self, step: int, steps: int) -> None:
        """Refuse the loop after step 2, if as many operators in each step exceed the limit of the graph."""
        if not self.has_room(step, steps):
            raise TooManyOperators(f"its {steps} steps record more operators than the limit")


@layer("If")
class If(_Control):
    """Run one of two networks, which the condition selects.

    Inputs: a boolean scalar, and the values that the networks capture. If the condition depends on the network's
    inputs, both networks run and the outputs are selected, which requires equal shapes. A network that cannot be
    computed for these shapes is left out, and a condition that selects it is an error when the network runs.
    Source: ONNX operator specification, If-1 to If-21.
    """

    then_branch: Subgraph = attribute("any", doc="the network for a true condition")
    else_branch: Subgraph = attribute("any", doc="the network for a false condition")

    def forward(self, condition: Array, *captured: Array) -> list[Array]:
        inputs = (condition, *captured)
        if not is_traced(condition):
            branch = self.then_branch if _truth(condition, "its condition") else self.else_branch
            how = wording("constants={name: value} of read", "-i NAME=VALUE, or --constant NAME=VALUE")
            advice = f"the condition selects this branch; if an input decides it, give its value: {how}"
            with nullcontext() if graph_of(inputs) is not None else adding_advice(advice):
                return self.inside(branch, (), inputs)
        both: list[list[Array]] = []
        problems: dict[int, ShapeError] = {}
        for i, branch in enumerate((self.then_branch, self.else_branch)):
            try:
                both.append(self.inside(branch, (), inputs))
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
        return [np.where(condition.reshape(()), a, b) for a, b in zip(*both)]

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


@layer("Loop")
class Loop(_Control):
    """Run a network repeatedly: it updates a state, and its other outputs are stacked along a new first axis.

    Inputs: the number of steps, which must be a constant, a condition, the initial state. The network maps (step,
    condition, state) to (condition, state, rows). Outputs: the last state, the stacked rows.
    Source: ONNX operator specification, Loop-1 to Loop-21.
    """

    body: Subgraph = attribute("any", doc="the network: step, condition, state -> condition, state, rows")

    def forward(self, *inputs: Array | None) -> list[Array]:
        arguments = inputs[: len(inputs) - len(self.body.captured)]
        limit, condition = arguments[0] if arguments else None, arguments[1] if len(arguments) > 1 else None
        states: list[Any] = list(arguments[2:])
        rows: list[list[Any]] = [[] for _ in range(self.outputs - len(states))]
        runs_on = _keeps_condition(self.body.network)
        if is_traced(limit) or is_traced(condition):
            return self.as_operator(inputs, len(arguments))
        count = None if limit is None else int(np.asarray(limit).reshape(()))
        go = condition is None or _truth(condition, "its condition")
        step, growth = 0, _Growth(inputs)
        need(
            not (go and runs_on) or (count is not None and count <= _MAX_STEPS),
            f"its loop exceeds the limit of {_MAX_STEPS} steps",
        )
        with _counting() as count_step:
            while go and (count is None or step < count):
                count_step()
                state = [np.array(step, np.int64), np.array(True), *states]
                again, *results = self.inside(self.body, state, inputs)
                states = results[: len(states)]
                need(
                    len(results) == len(states) + len(rows),
                    f"its graph must return {1 + len(states) + len(rows)} outputs, got {len(results) + 1}",
                )
                for row, value in zip(rows, results[len(states) :]):
                    row.append(value)
                if is_traced(again):
                    return self.as_operator(inputs, len(arguments))
                go = _truth(again, "its condition")
                step += 1
                if runs_on and count is not None and not growth.has_room(step, count):
                    return self.as_operator(inputs, len(arguments))
                need(step <= _MAX_STEPS, f"its loop exceeds the limit of {_MAX_STEPS} steps")
        need(step or not rows, "its loop runs 0 steps, so the sizes of its rows are unknown")
        return [*states, *(_stack(row) for row in rows)]

    def as_operator(self, inputs: Sequence[Any], arguments: int) -> list[Array]:
        """Record the loop as one operator, whose number of steps may depend on data."""
        full: list[Any] = [*inputs[:arguments], *[None] * (2 - arguments)]
        limit, condition, states = full[0], full[1], full[2:]
        others = inputs[arguments:]

        def step(values: list[Any]) -> list[Array]:
            first, captured = values[: 2 + len(states)], values[2 + len(states) :]
            return self.inside(self.body, first, [*[None] * arguments, *captured])

        return record_loop(step, limit, condition, states, others, _MAX_STEPS)


@layer("Scan")
class Scan(_Control):
    """Run a network along an axis of its inputs: it updates a state, and its other outputs are stacked.

    Inputs: the initial state, then num_scan_inputs arrays, each of which is sliced along its axis. The network
    maps (state, slices) to (state, rows). Outputs: the last state, the stacked rows.
    Source: ONNX operator specification, Scan-9 to Scan-21.
    """

    body: Subgraph = attribute("any", doc="the network: states, slices -> states, rows")
    num_scan_inputs: int = attribute("int64", doc="number of inputs that are sliced")
    scan_input_axes: Sequence[int] = attribute(
        "int64", (), repeated=True, doc="axis along which each is sliced; default 0"
    )
    scan_input_directions: Sequence[int] = attribute("int64", (), repeated=True, doc="1: in reverse order")
    scan_output_axes: Sequence[int] = attribute(
        "int64", (), repeated=True, doc="axis along which each is stacked; default 0"
    )
    scan_output_directions: Sequence[int] = attribute("int64", (), repeated=True, doc="1: in reverse order")
    directions: Sequence[int] = attribute("int64", (), repeated=True, doc="the directions in operator set 8")

    def forward(self, *inputs: Array) -> list[Array]:
        need(self.version >= 9, "Scan of operator set 8 (with a batch axis) is not supported")
        arguments = list(inputs[: len(inputs) - len(self.body.captured)])
        count = self.num_scan_inputs
        need(
            0 < count <= len(arguments),
            f"num_scan_inputs={count} must lie in 1..{len(arguments)}, the number of inputs",
        )
        states, cut = arguments[: len(arguments) - count], arguments[len(arguments) - count :]
        axes = [a % len(x.shape) for a, x in zip(self.scan_input_axes or (0,) * count, cut)]
        back = self.scan_input_directions or (0,) * count
        lengths = {x.shape[a] for a, x in zip(axes, cut)}
        need(len(lengths) == 1, f"its inputs have different lengths: {', '.join(map(str, sorted(lengths)))}")
        steps = int(lengths.pop())
        need(steps <= _MAX_STEPS, f"it takes {steps} steps, at most {_MAX_STEPS} are supported")
        rows: list[list[Any]] = [[] for _ in range(self.outputs - len(states))]
        growth = _Growth(inputs)
        with _counting() as count_step:
            for t in range(steps):
                count_step()
                slices = [
                    np.moveaxis(x, a, 0)[steps - 1 - t if b else t] if a else x[steps - 1 - t if b else t]
                    for x, a, b in zip(cut, axes, back)
                ]
                results = self.inside(self.body, [*states, *slices], inputs)
                states = results[: len(states)]
                for row, value in zip(rows, results[len(states) :]):
                    row.append(value)
                growth.need_room(t + 1, steps)
        return [*states, *self._stack(rows)]

    def _stack(self, rows: list[list[Any]]) -> list[Array]:
        need(all(rows), "it runs 0 steps, so the shapes of its outputs are unknown")
        axes = self.scan_output_axes or (0,) * len(rows)
        back = self.scan_output_directions or (0,) * len(rows)
        return [_stack(row[::-1] if b else row, a) for row, a, b in zip(rows, axes, back)]
