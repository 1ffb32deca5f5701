"""Branches whose condition is a constant: the branch that is taken stays, the other one is removed.

Graphs that were saved with a training phase have such branches, made of the operations Switch and Merge
(tensorflow/core/kernels/control_flow_ops.cc).
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from anylayer.readers._limits import MAX_BRANCH_STEPS
from anylayer.readers.tensorflow.functions import parse_name, tensor_name, without_index_0
from anylayer.readers.tensorflow.graph import GraphNode, StoredTensor
from anylayer.readers.tensorflow.structure import CONSTANT, DEFAULT_INPUTS, IDENTITIES, MERGES, SWITCHES


def remove_constant_branches(nodes: Mapping[str, GraphNode], variables: Container[str] = ()) -> None:
    """Rewrite the inputs of all operations: replace a Switch by its data, and a Merge by its live input.

    A Switch is replaced if its condition is constant. It is also replaced if its data is constant and only one of
    its outputs is read, because that output is the data if it is computed at all. `variables` names the variables
    whose values are known; they are treated as constants.
    """
    merges = [n for n in nodes.values() if n.op in MERGES]
    switches = [n for n in nodes.values() if n.op in SWITCHES]
    if not (merges or switches):
        return
    liveness = _Liveness(nodes, variables)
    alias: dict[str, str] = {}
    for merge in merges:
        live = [text for text in merge.inputs if liveness.is_live(text)]
        if len(live) == 1 and len(merge.inputs) == 2:
            alias[merge.name] = live[0]
    read = {without_index_0(text) for node in nodes.values() for text in node.inputs}
    for switch in switches:
        condition = liveness.condition(switch)
        if condition is not None:
            alias[tensor_name(switch.name, int(condition))] = switch.inputs[0]
        elif liveness.has_constant_data(switch):
            sides = [side for side in (tensor_name(switch.name, i) for i in (0, 1)) if side in read]
            alias.update({side: switch.inputs[0] for side in sides if len(sides) == 1})
    for node in nodes.values():
        node.inputs = [_resolve(text, alias) for text in node.inputs]


def _resolve(text: str, alias: dict[str, str]) -> str:
    """Follow aliases to the last one. Shorten the path in `alias`, so that later calls take one step."""
    name = without_index_0(text)
    passed: dict[str, None] = {}
    while name in alias and name not in passed:
        passed[name] = None
        name = without_index_0(alias[name])
    alias.update(dict.fromkeys((p for p in passed if p != name), name))
    return name


class _Liveness:
    """The values that are computed, given the constant conditions.

    The search stops at a limited number of steps.
    """

    def __init__(self, nodes: Mapping[str, GraphNode], variables: Container[str]) -> None:
        self.nodes, self.variables = nodes, variables
        self._steps_left = MAX_BRANCH_STEPS

    def _step(self) -> bool:
        self._steps_left -= 1
        return self._steps_left > 0

    def condition(self, switch: GraphNode) -> bool | None:
        """Return a Switch's condition if it is constant, else None."""
        node = self._producer(switch.inputs[1] if len(switch.inputs) == 2 else "", IDENTITIES | DEFAULT_INPUTS)
        value = node.attrs.get("value") if node is not None and node.op == CONSTANT else None
        array = value.array() if isinstance(value, StoredTensor) and value.dtype == "bool" else None
        return bool(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    def has_constant_data(self, switch: GraphNode) -> bool:
        """Return whether a Switch's data is constant."""
        node = self._producer(switch.inputs[0] if switch.inputs else "", IDENTITIES)
        return node is not None and (node.op == CONSTANT or node.name in self.variables)

    def _producer(self, text: str, identities: frozenset[str]) -> GraphNode | None:
        """Return the operation that produces a value. Skip the operations of the types `identities`."""
        while self._step():
            node = self.nodes.get(parse_name(text)[0])
            if node is None or node.name in self.variables or node.op not in identities or not node.inputs:
                return node
            text = node.inputs[0]
        return None

    def is_live(self, text: str) -> bool:
        """Return whether a value is computed, that is, does not depend on a branch that is not taken."""
        stack = [text]
        seen: set[str] = set()
        while stack and self._step():
            name, index = parse_name(stack.pop())
            node = self.nodes.get(name)
            if node is None or tensor_name(name, index) in seen:
                continue
            seen.add(tensor_name(name, index))
            if node.op in SWITCHES:
                condition = self.condition(node)
                if condition is not None and index != int(condition):
                    return False
            if node.op not in MERGES:
                stack.extend(node.inputs)
        return True
