"""Loops and branches that operations form in graphs of version 1: they become While and If.

A loop is a frame: each of its variables passes Enter, Merge, Switch and NextIteration, and leaves it by Exit.
A branch is between Switch and Merge (tensorflow/core/kernels/control_flow_ops.cc).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from anylayer.errors import NetworkError, need
from anylayer.readers._limits import MAX_BRANCH_STEPS, MAX_GRAPH_NESTING
from anylayer.readers.tensorflow.functions import parse_name, tensor_name, without_identities, without_index_0
from anylayer.readers.tensorflow.graph import GraphNode, Inside
from anylayer.readers.tensorflow.structure import (
    ARGUMENT,
    ENTERS,
    EXITS,
    IF,
    INPUTS,
    LOOP_CONDITION,
    MERGES,
    NEXT_ITERATIONS,
    SWITCHES,
    WHILE,
)


def structured_loops(
    nodes: Mapping[str, GraphNode], outputs: Mapping[str, str], values: Container[str]
) -> tuple[dict[str, GraphNode], dict[str, str]]:
    """Return the operations and outputs of a graph with a While in place of each frame. Operations that no output
    depends on are left out.

    values: the names of variables with known values.
    """
    return _rewritten_graph(_Frames(nodes, values), outputs)


def structured_branches(
    nodes: Mapping[str, GraphNode], outputs: Mapping[str, str], values: Container[str]
) -> tuple[dict[str, GraphNode], dict[str, str]]:
    """Return the operations and outputs of a graph without frames with an If in place of each Merge."""
    return _rewritten_graph(_Branches(nodes, values), outputs)


def _rewritten_graph(
    structure: _Structure, outputs: Mapping[str, str]
) -> tuple[dict[str, GraphNode], dict[str, str]]:
    walk = _Walk(structure, {}, 0)
    new = [walk.value(text) for text in outputs.values()]
    walk.finish()
    return walk.nodes, dict(zip(outputs, new))


class _Structure:
    """The operations of a graph, and the steps that may still be taken to replace some of them."""

    def __init__(self, nodes: Mapping[str, GraphNode], values: Container[str]) -> None:
        self.nodes, self.values = nodes, values
        self._steps_left = MAX_BRANCH_STEPS

    def step(self) -> None:
        self._steps_left -= 1
        need(self._steps_left > 0, "its loops and branches are nested in too many ways", NetworkError)

    def producer(self, text: str) -> GraphNode | None:
        return self.nodes.get(parse_name(text)[0])

    def replacement(self, node: GraphNode, index: int, depth: int) -> tuple[GraphNode, int] | None:
        """Return the operation that computes an output of `node` in its place, and the index of its output."""
        raise NotImplementedError

    def enters(self, node: GraphNode, index: int) -> str:
        """Return the value outside that an output of `node` is inside, or "" if it is computed inside."""
        return ""


class _Walk:
    """The operations that some values depend on, up to the arguments.

    arguments: the operation that stands for each value from outside. depth: how many networks are around it.
    `entered` maps further arguments to the values that they are outside.
    """

    def __init__(self, structure: _Structure, arguments: Mapping[str, str], depth: int) -> None:
        need(depth <= MAX_GRAPH_NESTING, f"its loops are nested deeper than {MAX_GRAPH_NESTING}", NetworkError)
        self.structure, self.arguments, self.depth = structure, arguments, depth
        self.nodes: dict[str, GraphNode] = {n: _argument(n) for n in arguments.values()}
        self.entered: dict[str, str] = {}
        self._waiting: list[GraphNode] = []

    def value(self, text: str) -> str:
        """Return the name of a value inside. Its producer is added by `finish`."""
        name = without_index_0(text)
        if name in self.arguments:
            return self.arguments[name]
        source, index = parse_name(name)
        node = self.structure.nodes.get(source)
        if node is None:
            return name  # which is refused with the place of its consumer
        outside = self.structure.enters(node, index)
        if self.depth and (node.op in INPUTS or source in self.structure.values):
            outside = name
        if outside and self.depth:
            self.entered[source] = outside
            self.nodes[source] = _argument(source)
            return source
        replacement = self.structure.replacement(node, index, self.depth)
        if replacement is not None:
            node, index = replacement
        if node.name not in self.nodes:
            copy = GraphNode(node.name, node.op, list(node.inputs), node.attrs, node.line)
            self.nodes[node.name] = copy
            self._waiting.append(copy)
        return tensor_name(node.name, index)

    def finish(self) -> None:
        """Add everything that the values depend on."""
        while self._waiting:
            self.structure.step()
            node = self._waiting.pop()
            if node.name not in self.structure.values:
                node.inputs = [self.value(text) for text in node.inputs]

    def inside(self, arguments: Sequence[str], outputs: Sequence[str]) -> Inside:
        """Return the operations as the network inside an operation with these arguments."""
        nodes = {**{n: _argument(n) for n in arguments}, **self.nodes}
        return Inside(nodes, arguments, outputs)


def _argument(name: str) -> GraphNode:
    return GraphNode(name, ARGUMENT, [], {})


class _Frames(_Structure):
    """The frames of a graph, each found by its LoopCond."""

    def __init__(self, nodes: Mapping[str, GraphNode], values: Container[str]) -> None:
        super().__init__(nodes, values)
        self._switches: dict[str, list[GraphNode]] = {n.name: [] for n in nodes.values() if n.op == LOOP_CONDITION}
        self._operations: dict[str, GraphNode | None] = {}
        for node in nodes.values():
            if node.op in SWITCHES and len(node.inputs) == 2:
                condition = without_identities(nodes, node.inputs[1])[0]
                if condition in self._switches:
                    self._switches[condition].append(node)

    def enters(self, node: GraphNode, index: int) -> str:
        return node.inputs[0] if node.op in ENTERS and node.inputs else ""

    def replacement(self, node: GraphNode, index: int, depth: int) -> tuple[GraphNode, int] | None:
        if node.op not in EXITS or not node.inputs:
            return None
        switch = self.producer(node.inputs[0])
        if switch is None or switch.op not in SWITCHES or len(switch.inputs) != 2:
            return None
        condition = without_identities(self.nodes, switch.inputs[1])[0]
        switches = self._switches.get(condition, [])
        if switch not in switches:
            return None
        if condition not in self._operations:
            self._operations[condition] = None  # for an Exit that the loop itself depends on
            self._operations[condition] = self._loop(self.nodes[condition], switches, depth)
        operation = self._operations[condition]
        return None if operation is None else (operation, switches.index(switch))

    def _loop(self, condition: GraphNode, switches: Sequence[GraphNode], depth: int) -> GraphNode | None:
        """Return the While of a frame. Return None if its operations do not form a loop."""
        starts, following, merges = [], [], []
        for switch in switches:
            merge = self.producer(switch.inputs[0])
            if merge is None or merge.op not in MERGES or len(merge.inputs) != 2:
                return None
            sources = [self.producer(text) for text in merge.inputs]
            enter = next((n for n in sources if n is not None and n.op in ENTERS and n.inputs), None)
            again = next((n for n in sources if n is not None and n.op in NEXT_ITERATIONS and n.inputs), None)
            if enter is None or again is None:
                return None
            starts.append(enter.inputs[0])
            following.append(again.inputs[0])
            merges.append(merge.name)
        names = [s.name for s in switches]
        test = _Walk(self, dict(zip(merges, names)), depth + 1)
        body = _Walk(self, {tensor_name(n, 1): n for n in names}, depth + 1)
        goes_on = test.value(condition.inputs[0] if condition.inputs else "")
        results = [body.value(text) for text in following]
        test.finish()
        body.finish()
        entered = {**test.entered, **body.entered}
        arguments = [*names, *entered]
        return GraphNode(
            condition.name,
            WHILE,
            [*starts, *entered.values()],
            {
                "cond": test.inside(arguments, [goes_on]),
                "body": body.inside(arguments, [*results, *entered]),
                "T": [""] * len(arguments),
            },
            condition.line,
        )


class _Branches(_Structure):
    """The branches of a graph: each Merge, whose sides begin at Switches with the same condition."""

    def __init__(self, nodes: Mapping[str, GraphNode], values: Container[str]) -> None:
        super().__init__(nodes, values)
        self._operations: dict[str, GraphNode | None] = {}

    def replacement(self, node: GraphNode, index: int, depth: int) -> tuple[GraphNode, int] | None:
        if node.op not in MERGES or len(node.inputs) != 2 or index:
            return None
        if node.name not in self._operations:
            self._operations[node.name] = None  # while it is not known, for a Merge that depends on itself
            self._operations[node.name] = self._branch(node, depth)
        operation = self._operations[node.name]
        return None if operation is None else (operation, 0)

    def _branch(self, merge: GraphNode, depth: int) -> GraphNode | None:
        """Return the If of a Merge. Return None if its sides do not belong to one condition."""
        sides = [_Side(self, text, depth + 1) for text in merge.inputs]
        conditions = {
            without_identities(self.nodes, s.inputs[1]) for side in sides for s, _ in side.switches.values()
        }
        answers = [{i for _, i in side.switches.values()} for side in sides]
        if len(conditions) != 1 or any(len(a) > 1 for a in answers) or answers[0] == answers[1]:
            return None
        yes = sides[0] if 1 in answers[0] or 0 in answers[1] else sides[1]
        switches = {name: s for side in sides for name, (s, _) in side.switches.items()}
        entered = {**sides[0].entered, **sides[1].entered}
        arguments = [*switches, *entered]
        data = [s.inputs[0] for s in switches.values()]
        no = sides[1] if yes is sides[0] else sides[0]
        return GraphNode(
            merge.name,
            IF,
            [next(iter(switches.values())).inputs[1], *data, *entered.values()],
            {
                "then_branch": yes.inside(arguments, [yes.result]),
                "else_branch": no.inside(arguments, [no.result]),
                "Tout": [""],
            },
            merge.line,
        )


class _Side(_Walk):
    """One side of a branch, up to its Switches: `switches` maps their names to them and the outputs it reads."""

    def __init__(self, structure: _Structure, text: str, depth: int) -> None:
        super().__init__(structure, {}, depth)
        self.switches: dict[str, tuple[GraphNode, int]] = {}
        self.result = self.value(text)
        self.finish()

    def value(self, text: str) -> str:
        name, index = parse_name(text)
        node = self.structure.nodes.get(name)
        if node is None or node.op not in SWITCHES or len(node.inputs) != 2:
            return super().value(text)
        key = name if self.switches.get(name, (node, index))[1] == index else f"{name}:{index}"
        self.switches[key] = node, index
        self.nodes[key] = _argument(key)
        return key


def has_frames(nodes: Iterable[GraphNode]) -> bool:
    """Return whether operations form loops."""
    return any(n.op == LOOP_CONDITION for n in nodes)


def has_branches(nodes: Iterable[GraphNode]) -> bool:
    """Return whether operations form branches."""
    return any(n.op in MERGES for n in nodes)
