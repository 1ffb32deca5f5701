"""What a writer is given: the network as it was read, its nodes as they were traced, and the one graph they make;
and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anylayer.errors import AnyLayerError
from anylayer.graph import Graph
from anylayer.layer import Bound
from anylayer.layer.native import NativeNode
from anylayer.network import Array, Network, Node, TensorType

Run = Callable[[Mapping[str, Array]], dict[str, Array]]
"""A file that has been read back: outputs by name, of inputs by name."""


@dataclass(slots=True)
class TracedNode:
    """A node of a network after tracing, for one set of input types.

    `bound` holds the layer's instance (`bound.instance` has the typed fields); it is None for a node that was not
    traced. `body` is the graph that the layer recorded, over the inputs that are not constant. It is None where
    all outputs are constant, for a host call (`reason` says why) and where `problem` is set. `inputs` and
    `outputs` are types; None stands for a type that is not known. `constants` are the constant outputs, by output
    index. `problem` is the error of a node that could not be traced, where the caller asked to go on. `notes` are
    for the user. `kernel` is the native layer that computes the node, if there is one; `body` and `reason` then
    describe the NumPy class of the type.
    """

    node: Node
    bound: Bound | None = None
    body: Graph | None = None
    inputs: list[TensorType | None] = field(default_factory=list)
    outputs: list[TensorType | None] = field(default_factory=list)
    constants: dict[int, Array] = field(default_factory=dict)
    reason: str = ""
    problem: AnyLayerError | None = None
    notes: list[str] = field(default_factory=list)
    kernel: NativeNode | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the node has outputs and all of them are constant."""
        return self.problem is None and len(self.constants) == len(self.node.outputs) > 0

    @property
    def is_host_call(self) -> bool:
        """Whether the layer runs in Python, between graphs."""
        return self.body is None and self.problem is None and self.kernel is None and not self.is_constant

    @property
    def has_operators(self) -> bool:
        """Whether operators or constants stand for the node, so that a file can hold it."""
        return self.body is not None or self.is_constant


@dataclass(frozen=True, slots=True)
class Source:
    """A network to write.

    `graph` is the whole network in ONNX operators, as the layers recorded it: not simplified (a writer calls
    optimize.simplify with the rules it likes). Its inputs have the names of `network.inputs`, those that nothing
    reads included; its outputs stand in the order of `outputs`, which maps each public name to the network's
    value. `op.scope` is the name of the network's node an operator belongs to; the Value that a node gives has
    the name it has in the network, where an operator gives it. No node is a host call.

    A layer that stays a call (`functions`) is one Op: `op` its type, `domain` not "", `body` the graph it stands
    for, over the same inputs. A layer that is kept (`keep`) is such an Op with `kept` set: its `attrs` are its
    params, flat, its last inputs its blobs, and what it computes is the target's affair; `body` says what it
    should be, over the inputs without the blobs, and is None where nobody knows.

    `nodes` are those that the outputs need, in order. `user_types` are the layer types that a user defines.
    `batch` is the name of the batch size, where it is open: then it is a Dim of that name in the shapes, and the
    graph is simplified as far as it can be for every engine.
    """

    network: Network
    graph: Graph
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, str]
    nodes: Sequence[TracedNode]
    user_types: frozenset[str] = frozenset()
    batch: str | None = None


@dataclass(slots=True)
class Written:
    """What a writer has written.

    `files`: the one to open last, its weights (where they are a file to be named) before it. `notes` are what
    the user may want to know. `renamed` maps a public name of an input or output to the name it has in the file,
    where that is another, `outputs` an output's alone. `transposed` maps a public name to the order of axes in
    which the file has it: an input x is given to the file as x.transpose(order), an output y of the source is
    compared as y.transpose(order). Where what is kept prevents that the file is run, `stand_in` is one that is
    compared in its place (in the same folder, not among `files`), in which kept layers compute their bodies; where
    there can be none, `unrun` says why. `reading` are the options of anylayer.read to read the files back with.
    `runtimes` are further runtimes that the file must give the same values in, each with a function that opens it;
    their results are named as the outputs are in the file.
    `params` are the parameters that layers of the file have as the source has them, by the layers' names in it;
    the reader's `prove` compares them.
    """

    files: list[Path]
    notes: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict, kw_only=True)
    transposed: dict[str, tuple[int, ...]] = field(default_factory=dict)
    stand_in: Path | None = None
    unrun: str = ""
    reading: dict[str, Any] = field(default_factory=dict)
    params: Mapping[str, Mapping[str, Any]] | None = None
    runtimes: dict[str, Callable[[], Run]] = field(default_factory=dict)


def other_outputs(source: Source) -> dict[str, str]:
    """Other names for the outputs that have an input's (a blob rewritten in place), for a format that gives every
    value a name of its own."""
    taken = {*source.inputs, *source.outputs, *(name for node in source.network.nodes for name in node.outputs)}
    found: dict[str, str] = {}
    for name in source.outputs:
        if name in source.inputs:
            other = f"{name}_out"
            while other in taken:
                other += "_"
            taken.add(other)
            found[name] = other
    return found
