"""If, Loop and Scan: operators that contain networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.layer import Node, attribute, layer
from anylayer.layers._control import MAX_STEPS, Control, Growth, counting, in_loop, is_known_true, stack
from anylayer.libraries.onnx import latest
from anylayer.network import Array, Network, Subgraph


class _Control(Control):
    message = "attribute"
    family = "onnx"

    def prepare(self, node: Node, dialect: str | None) -> None:
        self.version = node.version or latest()
        super().prepare(node, dialect)


def _source_of_condition(network: Network) -> int:
    """Return the number of the input that the body of a Loop returns as the condition; -1 if it computes it."""
    need(
        len(network.inputs) >= 2 and len(network.outputs) >= 1,
        "its body must have the step and the condition as inputs, and return a condition",
    )
    producers = {name: node for node in network.nodes for name in node.outputs}
    name = next(iter(network.outputs.values()))
    while (node := producers.get(name)) is not None and node.type == "Identity":
        name = node.inputs[0]
    return list(network.inputs).index(name) if name in network.inputs else -1


@layer("If")
class If(_Control):
    """Run one of two networks, which the condition selects.

    Inputs: a boolean scalar, and the values that the networks capture. If the condition depends on the network's
    inputs, both must return equal shapes; the one that is selected runs if they contain convolutions or products,
    and otherwise both run and the outputs are selected. A network that cannot be
    computed for these shapes is left out, and a condition that selects it is an error when the network runs.
    Source: ONNX operator specification, If-1 to If-21.
    """

    then_branch: Subgraph = attribute("any", doc="the network for a true condition")
    else_branch: Subgraph = attribute("any", doc="the network for a false condition")

    def forward(self, condition: Array, *captured: Array) -> list[Array]:
        return self.branch(condition, (self.then_branch, self.else_branch), (condition, *captured), 1)


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
        full: list[Any] = [*arguments, *[None] * (2 - len(arguments))]
        limit, condition, states = full[0], full[1], full[2:]

        def step(values: list[Any]) -> list[Array]:
            first, captured = values[: 2 + len(states)], values[2 + len(states) :]
            return self.inside(self.body, first, [*[None] * len(arguments), *captured])

        others, rows = inputs[len(arguments) :], self.outputs - len(states)
        source = _source_of_condition(self.body.network)
        captured = others[source - 2 - len(states)] if source >= 2 + len(states) else None
        runs_on = source == 1 or (captured is not None and is_known_true(captured))
        return self.loop(step, limit, condition, states, others, rows, runs_on=runs_on)


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
        need(steps <= MAX_STEPS, f"it takes {steps} steps, at most {MAX_STEPS} are supported")
        rows: list[list[Any]] = [[] for _ in range(self.outputs - len(states))]
        growth = Growth(inputs)
        with counting() as count_step:
            for t in range(steps):
                count_step()
                slices = [
                    np.moveaxis(x, a, 0)[steps - 1 - t if b else t] if a else x[steps - 1 - t if b else t]
                    for x, a, b in zip(cut, axes, back)
                ]
                with in_loop(t + 1):
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
        return [stack(row[::-1] if b else row, a) for row, a, b in zip(rows, axes, back)]
