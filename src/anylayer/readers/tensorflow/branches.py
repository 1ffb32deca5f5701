"""Branches whose condition is a constant, as graphs have that were saved with their training phase: the branch
that is taken stays, the other goes (Switch, Merge; core/kernels/control_flow_ops.cc)."""

from __future__ import annotations

from collections.abc import Mapping

from anylayer.readers.tensorflow.functions import reference, spelled
from anylayer.readers.tensorflow.graph import GraphNode, Tensor
from anylayer.readers.tensorflow.structure import CONSTANT, DEFAULTED, LOOPS, MERGES, PASSES, SWITCHES

_MOST = 2_000_000
"""Steps that are taken to look for what is known; behind them nothing more is."""


def take_known(nodes: Mapping[str, GraphNode]) -> None:
    """Rewrite the inputs of every operation that reads a branch: a Switch is what it is given, a Merge the input
    that is alive. Where a condition is not known, or there are loops, nothing changes."""
    merges = [n for n in nodes.values() if n.op in MERGES]
    if not merges or any(n.op in LOOPS for n in nodes.values()):
        return
    alive = _Alive(nodes)
    alias: dict[str, str] = {}
    for merge in merges:
        live = [text for text in merge.inputs if alive.of(text)]
        if len(live) == 1 and len(merge.inputs) == 2:
            alias[merge.name] = live[0]
    for switch in (n for n in nodes.values() if n.op in SWITCHES and alive.known(n) is not None):
        alias[spelled(switch.name, int(bool(alive.known(switch))))] = switch.inputs[0]
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

    def __init__(self, nodes: Mapping[str, GraphNode]) -> None:
        self.nodes = nodes
        self._left = _MOST

    def _step(self) -> bool:
        self._left -= 1
        return self._left > 0

    def known(self, switch: GraphNode) -> bool | None:
        """A Switch's condition, where it is a constant."""
        text = switch.inputs[1] if len(switch.inputs) == 2 else ""
        while self._step():
            node = self.nodes.get(reference(text)[0])
            if node is None:
                return None
            if node.op == CONSTANT:
                value = node.attrs.get("value")
                found = value.array() if isinstance(value, Tensor) and value.dtype == "bool" else None
                return bool(found.reshape(-1)[0]) if found is not None and found.size == 1 else None
            if node.op not in PASSES | DEFAULTED or not node.inputs:
                return None
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
