"""Branches and loops of TensorFlow and TFLite, whose bodies are functions of the file.

A list, a TensorArray of version 1 or a TensorList, of n arrays is an array (n, *shape). While the shape of its
elements is not known, it is (n, 0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anylayer.layer import Array, Node, attribute, need
from anylayer.layer.arguments import is_constant
from anylayer.layers._control import Control
from anylayer.network import Network, Subgraph


def has_unknown_elements(x: Array) -> bool:
    return len(x.shape) == 2 and x.shape[1] == 0


def with_known_elements(states: Sequence[Array], following: Callable[[], Sequence[Array]]) -> list[Array]:
    """Return the states before a loop, in which lists have the elements that they have after a step."""
    if not any(map(has_unknown_elements, states)):
        return list(states)
    return [
        np.zeros((x.shape[0], *y.shape[1:]), y.dtype) if has_unknown_elements(x) and len(y.shape) > 1 else x
        for x, y in zip(states, following())
    ]


class FunctionIf(Control):
    """An operator that runs one of two functions, which its first input selects."""

    then_branch: Subgraph = attribute("any", doc="the function for a true condition")
    else_branch: Subgraph = attribute("any", doc="the function for a false condition")

    def forward(self, condition: Array, *arguments: Array) -> list[Array]:
        need(len(condition.shape) == 0, f"the condition must be a scalar, got shape {tuple(condition.shape)}")
        inputs = (condition != 0, *arguments)
        return self.branch(inputs[0], (self.then_branch, self.else_branch), inputs, 1)


class FunctionWhile(Control):
    """An operator that runs a function on its own results while another one is true of them."""

    cond: Subgraph = attribute("any", doc="the function that says whether there is another step")
    body: Subgraph = attribute("any", doc="the function of one step")

    def prepare(self, node: Node, dialect: str | None) -> None:
        super().prepare(node, dialect)
        self._stacking, self._lists = _with_rows(self.cond.network, self.body.network)

    def forward(self, *values: Array) -> list[Array]:
        limits, only = _limits(self.cond.network, self.body.network, values)
        limit: Any = np.maximum(np.min(np.stack(limits)), 0) if limits else None
        is_stacked = bool(self._lists) and only and is_constant(limit)
        for i, counter in self._lists.items():
            is_filled = is_constant(values[counter]) and int(np.asarray(values[counter]).reshape(())) == 0
            is_stacked = is_stacked and is_filled and int(np.asarray(limit)) == values[i].shape[0] > 0
        lists = [*self._lists] if is_stacked else []
        body = self._stacking if is_stacked else self.body
        fixed = [*_invariants(self.body.network), *lists]
        changing = [i for i in range(len(values)) if i not in fixed]
        others = [values[i] for i in fixed]

        def arguments(states: Sequence[Array], others: Sequence[Array]) -> list[Any]:
            both = {**dict(zip(changing, states)), **dict(zip(fixed, others))}
            return [both[i] for i in range(len(values))]

        def goes_on(states: Sequence[Array], others: Sequence[Array]) -> Array:
            (condition,) = self.inside(self.cond, arguments(states, others), ())
            return (condition if condition.dtype == bool else condition != 0).reshape(())

        def following(states: Sequence[Array], others: Sequence[Array]) -> list[Array]:
            results = self.inside(body, arguments(states, others), ())
            return [results[i] for i in (*changing, *lists)]

        def step(inputs: list[Any]) -> list[Array]:
            states = following(inputs[2 : 2 + len(changing)], inputs[2 + len(changing) :])
            return [inputs[1] if only else goes_on(states, inputs[2 + len(changing) :]), *states]

        states = [values[i] for i in changing]
        states = with_known_elements(states, lambda: following(states, others))
        condition = None if only else goes_on(states, others)
        results = self.loop(step, limit, condition, states, others, len(lists), runs_on=only)
        last = arguments(results, others)
        for i, rows in zip(lists, results[len(changing) :]):
            last[i] = rows
        return last


def _sources(network: Network) -> Callable[[str], str]:
    """Return the function that returns the value which a value of a network is, without identities."""
    sources = {n.outputs[0]: n.inputs[0] for n in network.nodes if n.type == "Identity"}

    def source(name: str) -> str:
        while name in sources:
            name = sources[name]
        return name

    return source


def _invariants(body: Network) -> list[int]:
    """Return the arguments, by number, that each step returns unchanged."""
    source = _sources(body)
    return [i for i, (a, b) in enumerate(zip(body.inputs, body.outputs.values())) if source(b) == a]


_WRITES = {"TensorListSetItem": (0, 1, 2), "TensorArrayWriteV3": (3, 1, 2)}
"""The operations that write an element of a list: which inputs are the list, the index and the element."""


def _with_rows(cond: Network, body: Network) -> tuple[Subgraph, dict[int, int]]:
    """Return the body of a loop in which lists that it only writes are replaced by their elements, and the
    counters that are the indices of these lists. Lists and counters are the numbers of arguments.
    """
    source, inputs = _sources(body), list(body.inputs)
    uses = Counter(source(name) for n in body.nodes if n.type != "Identity" for name in n.inputs)
    uses.update(map(source, body.outputs.values()))
    cond_source = _sources(cond)
    uses.update(
        inputs[i]
        for i, name in enumerate(cond.inputs)
        if any(cond_source(x) == name for n in cond.nodes for x in n.inputs)
    )
    producers = {n.outputs[0]: n for n in body.nodes}
    outputs, lists, removed = dict(body.outputs), dict[int, int](), set[str]()
    for i, (key, name) in enumerate(body.outputs.items()):
        node = producers.get(source(name))
        if node is None or node.type not in _WRITES:
            continue
        written, index, element = (node.inputs[k] for k in _WRITES[node.type])
        is_counted = source(index) in inputs and inputs.index(source(index)) in _counters(body)
        if source(written) == inputs[i] and uses[inputs[i]] == uses[node.outputs[0]] == 1 and is_counted:
            outputs[key], lists[i] = element, inputs.index(source(index))
            removed.add(node.outputs[0])
    nodes = [n for n in body.nodes if source(n.outputs[0]) not in removed]
    return Subgraph(replace(body, nodes=nodes, outputs=outputs), []), lists


def _limits(cond: Network, body: Network, values: Sequence[Array]) -> tuple[list[Any], bool]:
    """Return the numbers of steps after which a counter has reached its limit, and whether only this ends the
    loop.

    A counter is an argument to which each step adds 1. Its limit is a constant, or an argument that stays the
    same.
    """
    source = _sources(cond)
    producers = {n.outputs[0]: n for n in cond.nodes}
    arguments = dict(zip(cond.inputs, values))
    fixed, counters = ([list(cond.inputs)[i] for i in numbers] for numbers in (_invariants(body), _counters(body)))
    constants: dict[str, Array] = {n.outputs[0]: n.blobs[0] for n in cond.nodes if n.type in _CONSTANTS}
    constants.update((name, arguments[name]) for name in fixed)
    waiting, limits, only = [*cond.outputs.values()], list[Any](), True
    while waiting:
        node = producers.get(source(waiting.pop()))
        if node is not None and node.type in _ANDS:
            waiting += node.inputs
        elif node is not None and node.type in _BELOW:
            low, high = map(source, node.inputs[:: _BELOW[node.type]])
            end: Any = constants.get(high)
            if low in counters and end is not None and end.dtype.kind in "iu":
                start = arguments[low].astype(np.int64)
                limits.append(
                    (end.astype(np.int64) - start).reshape(()) + int(node.type.upper().endswith("EQUAL"))
                )
            else:
                only = False
        else:
            only = False
    return limits, only


_CONSTANTS, _ANDS = ("Const", "CONSTANT"), ("LogicalAnd", "LOGICAL_AND")
_SUMS = ("Add", "AddV2", "ADD")
_BELOW = {"Less": 1, "LessEqual": 1, "Greater": -1, "GreaterEqual": -1}
_BELOW |= {"LESS": 1, "LESS_EQUAL": 1, "GREATER": -1, "GREATER_EQUAL": -1}
"""The comparisons of a counter with its limit, and the order of their inputs."""


def _counters(body: Network) -> list[int]:
    """Return the arguments, by number, to which each step adds 1."""
    source = _sources(body)
    producers = {n.outputs[0]: n for n in body.nodes}
    counters = []
    for i, (argument, result) in enumerate(zip(body.inputs, body.outputs.values())):
        node = producers.get(source(result))
        if node is None or node.type not in _SUMS:
            continue
        parts = [source(n) for n in node.inputs]
        ones = [
            p
            for p in parts
            if (n := producers.get(p)) is not None and n.type in _CONSTANTS and _is_one(n.blobs[0])
        ]
        if argument in parts and ones:
            counters.append(i)
    return counters


def _is_one(array: Array) -> bool:
    return array.size == 1 and array.dtype.kind in "iu" and int(array.reshape(())) == 1
