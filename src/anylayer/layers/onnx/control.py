"""If, Loop and Scan: operators that have networks inside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import TraceError, at, need
from anylayer.layer import Bound, Definition, Layer, Registry, bind, layer
from anylayer.layer.fields import attribute
from anylayer.layer.registry import registered
from anylayer.layers.onnx._record import is_static
from anylayer.libraries.onnx import latest
from anylayer.network import ABSENT, Node, Subgraph, TensorType
from anylayer.tracing import is_traced

_TURNS = 30_000
"""The limit for the turns of a Loop and the steps of a Scan."""


class _Control(Layer):
    """What the three share: running the nodes of a network inside."""

    message = "attribute"

    def prepare(self, node: Node, dialect: str | None) -> None:
        """Take the node's attributes."""
        self._bounds: dict[Any, Bound] = {}
        self.version = node.version or latest()
        super().prepare(node, dialect)

    def inside(self, graph: Subgraph, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a network inside for these inputs, the captured ones last."""
        network = graph.network
        need(
            len(inputs) == len(network.inputs),
            f"its graph '{network.name}' takes {len(network.inputs)} inputs, got {len(inputs)}",
        )
        values: dict[str, Any] = {**dict(zip(network.inputs, inputs)), "": None}
        for i, node in enumerate(network.nodes):
            arrays = [values[name] for name in node.inputs]
            types = tuple(ABSENT if x is None else TensorType(tuple(x.shape), x.dtype) for x in arrays)
            key = (id(network), i, types)
            if key not in self._bounds:
                with at(node.place):
                    self._bounds[key] = bind(node, _definitions(node), types)
            values.update(zip(node.outputs, self._bounds[key](arrays)))
        return [values[name] for name in network.outputs.values()]


def _definitions(node: Node) -> list[Definition]:
    users = registered()
    found = [users[node.type]] if node.type in users else Registry.of("onnx").find(node.type)
    need(found, f"nothing defines '{node.type}' inside a graph; register a class for it with @anylayer.layer")
    return found


def _stack(rows: Sequence[Any], axis: int = 0) -> Any:
    """The rows of all turns as one array."""
    if not all(map(is_static, rows)):
        raise TraceError("the size of its rows is known only when the network runs")
    return np.stack(rows, axis)


def _truth(x: Any, what: str) -> bool:
    if is_traced(x):
        raise TraceError(f"{what} is known only when the network runs")
    return bool(np.asarray(x).reshape(()))


@layer("If")
class If(_Control):
    """One of two networks, as the condition says (ONNX If)."""

    then_branch: Subgraph = attribute("any", doc="the network that runs where the condition is true")
    else_branch: Subgraph = attribute("any", doc="the network that runs where it is not")

    def forward(self, condition: Any, *captured: Any) -> Any:
        split = len(self.then_branch.captured)
        branches = ((self.then_branch, captured[:split]), (self.else_branch, captured[split:]))
        if not is_traced(condition):
            graph, inputs = branches[0 if _truth(condition, "its condition") else 1]
            return self.inside(graph, inputs)
        both = [self.inside(graph, inputs) for graph, inputs in branches]
        for a, b in zip(*both):
            if a.shape != b.shape or a.dtype != b.dtype:
                raise TraceError(
                    f"its branches give {tuple(a.shape)} and {tuple(b.shape)}; which one runs, only the data tell"
                )
        return [np.where(condition.reshape(()), a, b) for a, b in zip(*both)]


@layer("Loop")
class Loop(_Control):
    """A network again and again: its state goes round, its other outputs are stacked (ONNX Loop)."""

    body: Subgraph = attribute("any", doc="the network: turn, condition, state -> condition, state, rows")

    def forward(self, most: Any = None, condition: Any = None, *rest: Any) -> Any:
        captured = len(self.body.captured)
        states = list(rest[: len(rest) - captured])
        outer = rest[len(rest) - captured :]
        rows: list[list[Any]] = [[] for _ in range(self.outputs - len(states))]
        if is_traced(most):
            raise TraceError("its number of turns is known only when the network runs")
        count = None if most is None else int(np.asarray(most).reshape(()))
        go = condition is None or _truth(condition, "its condition")
        turn = 0
        while go and (count is None or turn < count):
            state: list[Any] = [np.array(turn, np.int64), np.array(True), *states]
            again, *results = self.inside(self.body, [*state, *outer])
            states = results[: len(states)]
            need(len(results) == len(states) + len(rows), f"its graph gives {len(results) + 1} outputs")
            for row, value in zip(rows, results[len(states) :]):
                row.append(value)
            go = _truth(again, "its condition")
            turn += 1
            need(turn <= _TURNS, f"its loop runs more than {_TURNS} times, which is the limit")
        need(turn or not rows, "it turns not once: the size of its rows is unknown")
        return [*states, *(_stack(row) for row in rows)]


@layer("Scan")
class Scan(_Control):
    """A network along an axis: its state goes on, its other outputs are stacked (ONNX Scan)."""

    body: Subgraph = attribute("any", doc="the network: states, slices -> states, rows")
    num_scan_inputs: int = attribute("int64", doc="how many inputs are cut into slices")
    scan_input_axes: Sequence[int] = attribute("int64", (), repeated=True, doc="the axis each is cut along; 0")
    scan_input_directions: Sequence[int] = attribute("int64", (), repeated=True, doc="1: from the end")
    scan_output_axes: Sequence[int] = attribute(
        "int64", (), repeated=True, doc="the axis each is stacked along; 0"
    )
    scan_output_directions: Sequence[int] = attribute("int64", (), repeated=True, doc="1: from the end")
    directions: Sequence[int] = attribute("int64", (), repeated=True, doc="of operator set 8")

    def forward(self, *inputs: Any) -> Any:
        need(self.version >= 9, "Scan of operator set 8 (with a batch axis) is not supported")
        own = list(inputs[: len(inputs) - len(self.body.captured)])
        outer = inputs[len(own) :]
        count = self.num_scan_inputs
        need(0 < count <= len(own), f"num_scan_inputs={count}, it has {len(own)} inputs")
        states, cut = own[: len(own) - count], own[len(own) - count :]
        axes = [a % len(x.shape) for a, x in zip(self.scan_input_axes or (0,) * count, cut)]
        back = self.scan_input_directions or (0,) * count
        lengths = {x.shape[a] for a, x in zip(axes, cut)}
        need(len(lengths) == 1, f"its inputs are of different lengths: {', '.join(map(str, sorted(lengths)))}")
        steps = int(lengths.pop())
        need(steps <= _TURNS, f"it takes {steps} steps, the limit is {_TURNS}")
        rows: list[list[Any]] = [[] for _ in range(self.outputs - len(states))]
        for t in range(steps):
            slices = [
                np.moveaxis(x, a, 0)[steps - 1 - t if b else t] if a else x[steps - 1 - t if b else t]
                for x, a, b in zip(cut, axes, back)
            ]
            results = self.inside(self.body, [*states, *slices, *outer])
            states = results[: len(states)]
            for row, value in zip(rows, results[len(states) :]):
                row.append(value)
        return [*states, *self._stacked(rows)]

    def _stacked(self, rows: list[list[Any]]) -> list[Any]:
        need(all(rows), "it takes not one step: the size of its rows is unknown")
        axes = self.scan_output_axes or (0,) * len(rows)
        back = self.scan_output_directions or (0,) * len(rows)
        return [_stack(row[::-1] if b else row, a) for row, a, b in zip(rows, axes, back)]
