"""Operators that run subgraphs: loops over an axis, loops with a condition, and branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, layer, need
from anylayer.layers._control import Control
from anylayer.layers.mxnet._base import INT, INTS, MXNetLayer, training
from anylayer.network import Subgraph


class _Control(Control, MXNetLayer):
    family = "mxnet"
    training = training("num_outputs")["training"]
    subgraphs: Sequence[Subgraph] = attribute("any", doc="the networks that it runs")

    def graph(self, number: int, places: Sequence[int], values: Sequence[Array]) -> Subgraph:
        """Return a subgraph whose inputs are the operator's inputs at these places."""
        count, has = len(values), len(self.subgraphs)
        need(number < has, f"it has {has} subgraphs, and needs {number + 1}")
        need(all(0 <= i < count for i in places), f"its subgraph reads the inputs {[*places]} of {count}")
        return replace(self.subgraphs[number], captured=[*places])


@layer("_foreach")
class ForEach(_Control):
    """Run a subgraph for each index of the first axis of arrays: it updates states, and other outputs are stacked.

    Inputs: the arrays, the states, and what each step reads as it is. Outputs: those that are stacked, then the
    last states.
    Source: src/operator/control_flow.cc of MXNet.
    """

    in_data_locs: Sequence[int] = INTS
    in_state_locs: Sequence[int] = INTS
    remain_locs: Sequence[int] = INTS
    num_out_data: int = INT

    def forward(self, *values: Array) -> list[Array]:
        places = [*self.in_data_locs, *self.in_state_locs, *self.remain_locs]
        count = len(places)
        need(sorted(places) == [*range(count)] and count == len(values), f"its subgraph reads the inputs {places}")
        order = sorted(range(count), key=places.__getitem__)
        body, n, end = self.graph(0, order, values), len(self.in_data_locs), len(values) - len(self.remain_locs)
        lengths = {x.shape[0] for x in values[:n]}
        need(len(lengths) == 1, f"the arrays must have one length, got {sorted(map(str, lengths))}")

        def step(inputs: Sequence[Array]) -> list[Array]:
            states, others = inputs[2 : 2 + end - n], inputs[2 + end - n :]
            slices = [ops.gather(x, inputs[0]) for x in others[:n]]
            results = self.inside(body, (), [*slices, *states, *others[n:]])
            return [inputs[1], *results[self.num_out_data :], *results[: self.num_out_data]]

        limit, others = np.array(lengths.pop()), (*values[:n], *values[end:])
        results = self.loop(step, limit, None, values[n:end], others, self.num_out_data, runs_on=True)
        return [*results[end - n :], *results[: end - n]]


@layer("_while_loop")
class WhileLoop(_Control):
    """Run a subgraph on its own results while another one is not 0, at most max_iterations times.

    Inputs: the variables of the loop, and what each step reads as it is. Outputs: the other results of each step,
    stacked to max_iterations rows, of which those after the last step are 0, then the last variables.
    Source: src/operator/control_flow.cc of MXNet.
    """

    cond_input_locs: Sequence[int] = INTS
    func_input_locs: Sequence[int] = INTS
    func_var_locs: Sequence[int] = INTS
    max_iterations: int = INT
    num_out_data: int = INT

    def forward(self, *values: Array) -> list[Array]:
        cond, func = self.graph(0, self.cond_input_locs, values), self.graph(1, self.func_input_locs, values)
        rows, count = self.num_out_data, len(func.captured)
        need(
            all(0 <= i < count for i in self.func_var_locs),
            f"func_var_locs {self.func_var_locs} of {count} inputs",
        )
        changing = [func.captured[i] for i in self.func_var_locs]
        fixed = [i for i in range(len(values)) if i not in changing]

        def inputs_of(states: Sequence[Array], others: Sequence[Array]) -> list[Array]:
            both = {**dict(zip(changing, states)), **dict(zip(fixed, others))}
            return [both[i] for i in range(len(values))]

        def goes_on(states: Sequence[Array], others: Sequence[Array]) -> Array:
            (condition,) = self.inside(cond, (), inputs_of(states, others))
            return (condition != 0).reshape(())

        def step(inputs: Sequence[Array]) -> list[Array]:
            number, _, *states = inputs[: 2 + len(changing)]
            stacks, others = inputs[2 + len(changing) :][:rows], inputs[2 + len(changing) + rows :]
            results = self.inside(func, (), inputs_of(states, others))
            at = np.arange(self.max_iterations) == number
            stacks = [np.where(at.reshape(-1, *(1,) * len(y.shape)), y[None], x) for x, y in zip(stacks, results)]
            return [goes_on(results[rows:], others), *results[rows:], *stacks]

        states, others = [values[i] for i in changing], [values[i] for i in fixed]
        first = self.inside(func, (), values)[:rows]
        stacks = [np.zeros((self.max_iterations, *y.shape), y.dtype) for y in first]
        limit, condition = np.array(self.max_iterations), goes_on(states, others)
        results = self.loop(step, limit, condition, [*states, *stacks], others)
        return [*results[len(states) :], *results[: len(states)]]


@layer("_cond")
class Cond(_Control):
    """Run one of two subgraphs, which a third one selects by a number other than 0.

    If it depends on the network's inputs, both run and the outputs are selected, which requires equal shapes.
    Source: src/operator/control_flow.cc of MXNet.
    """

    cond_input_locs: Sequence[int] = INTS
    then_input_locs: Sequence[int] = INTS
    else_input_locs: Sequence[int] = INTS

    def forward(self, *values: Array) -> list[Array]:
        places = (self.cond_input_locs, self.then_input_locs, self.else_input_locs)
        predicate, *branches = (self.graph(i, locs, values) for i, locs in enumerate(places))
        (condition,) = self.inside(predicate, (), values)
        return self.branch((condition != 0).reshape(()), branches, values, 0)
