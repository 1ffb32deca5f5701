"""Branches whose condition is a constant, as graphs have that were saved with their training phase: the branch
that is taken stays, the other goes (Switch, Merge; core/kernels/control_flow_ops.cc)."""

from __future__ import annotations

from collections.abc import Container, Mapping

from anylayer.readers.tensorflow.functions import reference, spelled
from anylayer.readers.tensorflow.graph import GraphNode, Tensor
from anylayer.readers.tensorflow.structure import CONSTANT, DEFAULTED, LOOPS, MERGES, PASSES, SWITCHES

_MOST = 2_000_000
"""Steps that are taken to look for what is known; behind them nothing more is."""


def take_known(nodes: Mapping[str, GraphNode], values: Container[str] = ()) -> None:
    """Rewrite the inputs of every operation that reads a branch: replace a Switch by its data, a Merge by the
    input that is alive.

    A Switch is replaced where its condition is a constant; also where its data is a constant and one branch alone
    reads it, since what is computed of it at all has this value. `values` names the operations whose values are
    known, which variables are. Graphs with loops stay as they are.
    """
    merges = [n for n in nodes.values() if n.op in MERGES]
    switches = [n for n in nodes.values() if n.op in SWITCHES]
    if not (merges or switches) or any(n.op in LOOPS for n in nodes.values()):
        return
    alive = _Alive(nodes, values)
    alias: dict[str, str] = {}
    for merge in merges:
        live = [text for text in merge.inputs if alive.of(text)]
        if len(live) == 1 and len(merge.inputs) == 2:
            alias[merge.name] = live[0]
    read = {spelled(*reference(text)) for node in nodes.values() for text in node.inputs}
    for switch in switches:
        taken = alive.known(switch)
        if taken is not None:
            alias[spelled(switch.name, int(taken))] = switch.inputs[0]
        elif alive.constant(switch):
            sides = [side for side in (spelled(switch.name, i) for i in (0, 1)) if side in read]
            alias.update({side: switch.inputs[0] for side in sides if len(sides) == 1})
    for node in nodes.values():
        node.inputs = [_resolved(text, alias) for text in node.inputs]


def _resolved(text: str, alias: dict[str, str]) -> str:
    name = spelled(*reference(text))
    passed: dict[str, None] = {}
    while name in alias and name not in passed:
        passed[name] = None
        name = spelled(*reference(alias[name]))
    alias.update(dict.fromkeys((p for p in passed if p != name), name))  # the next one need not go so far
    return name


class _Alive:
    """Which values are computed at all."""

    def __init__(self, nodes: Mapping[str, GraphNode], values: Container[str]) -> None:
        self.nodes, self.values = nodes, values
        self._left = _MOST

    def _step(self) -> bool:
        self._left -= 1
        return self._left > 0

    def known(self, switch: GraphNode) -> bool | None:
        """A Switch's condition, where it is a constant."""
        node = self._behind(switch.inputs[1] if len(switch.inputs) == 2 else "", PASSES | DEFAULTED)
        value = node.attrs.get("value") if node is not None and node.op == CONSTANT else None
        found = value.array() if isinstance(value, Tensor) and value.dtype == "bool" else None
        return bool(found.reshape(-1)[0]) if found is not None and found.size == 1 else None

    def constant(self, switch: GraphNode) -> bool:
        """Whether a Switch's data is a constant."""
        node = self._behind(switch.inputs[0] if switch.inputs else "", PASSES)
        return node is not None and (node.op == CONSTANT or node.name in self.values)

    def _behind(self, text: str, passes: frozenset[str]) -> GraphNode | None:
        """Return the operation that computes a value, passing those that give it as it is."""
        while self._step():
            node = self.nodes.get(reference(text)[0])
            if node is None or node.name in self.values or node.op not in passes or not node.inputs:
                return node
            text = node.inputs[0]
        return None

    def of(self, text: str) -> bool:
        """Whether a value is computed: none of what it depends on is the output of a branch that is not taken."""
        stack = [text]
        seen: set[str] = set()
        while stack and self._step():
            name, index = reference(stack.pop())
            node = self.nodes.get(name)
            if node is None or spelled(name, index) in seen:
                continue
            seen.add(spelled(name, index))
            if node.op in SWITCHES:
                taken = self.known(node)
                if taken is not None and index != int(taken):
                    return False
            if node.op not in MERGES:
                stack.extend(node.inputs)
        return True
