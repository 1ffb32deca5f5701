"""Loops, whose body is a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.layer import Array, attribute, layer, need
from anylayer.layer.arguments import is_constant
from anylayer.layers._control import Control
from anylayer.layers.openvino._base import OpenVINOLayer
from anylayer.network import Subgraph


@layer("Loop")
class Loop(Control, OpenVINOLayer):
    """Run a network repeatedly: it updates a state, and its other outputs are stacked along the first axis.

    Inputs: the number of steps (-1: no limit), a condition, and the arguments of the body. The reader takes the
    attributes from the port map and the back edges of the loop.
    Source: OpenVINO operation specification, Loop-5.
    """

    family = "openvino"
    role = "loop"
    body: Subgraph = attribute("any", doc="the network of one step")
    arguments: Any = attribute("any", doc="for each input of the body: the loop's input, or -1 for the step")
    following: Any = attribute("any", doc="for each input of the body: the output that is its next value, or -1")
    condition: int = attribute("int64", doc="the output of the body that is the condition, or -1")
    results: Any = attribute("any", doc="for each output: the output of the body, and whether it is stacked")

    def forward(self, limit: Array, go: Array, *inputs: Array) -> list[Array]:
        network, values = self.body.network, [limit, go, *inputs]
        states = [i for i, k in enumerate(self.following) if k >= 0]
        fixed = [i for i, k in enumerate(self.following) if k < 0 and self.arguments[i] >= 0]
        last = [self.following[i] for i in states]
        rows = [k for k, is_stacked in self.results if is_stacked]
        need(
            all(self.arguments[i] >= 0 for i in states)
            and all(stacked or k in last for k, stacked in self.results),
            "an output that is the last value of what is no state is not supported",
        )
        types = list(network.inputs.values())

        def step(arrays: list[Any]) -> list[Array]:
            passed: dict[int, Any] = dict(zip([*states, *fixed], arrays[2:]))
            arguments = []
            for i, kind in enumerate(types):
                x = passed.get(i, arrays[0])
                arguments.append(x if i in passed or kind is None else x.astype(kind.dtype).reshape(kind.shape))
            outputs = self.inside(self.body, arguments, ())
            again = outputs[self.condition].reshape(()) if self.condition >= 0 else arrays[1]
            return [again, *(outputs[k] for k in last), *(outputs[k][0] for k in rows)]

        has_limit = not (is_constant(limit) and int(np.asarray(limit).reshape(())) < 0)
        starts: Sequence[Any] = [values[self.arguments[i]] for i in states]
        others = [values[self.arguments[i]] for i in fixed]
        steps = limit.reshape(()) if has_limit else None
        only = self.condition < 0
        results = self.loop(step, steps, go.reshape(()), starts, others, len(rows), runs_on=only)
        stacked = iter(results[len(states) :])
        return [next(stacked) if is_stacked else results[last.index(k)] for k, is_stacked in self.results]
