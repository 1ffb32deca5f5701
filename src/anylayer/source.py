"""The interface of writers: `Source` is a writer's input, `Written` is its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anylayer.errors import AnyLayerError
from anylayer.graph import Graph
from anylayer.graph.place import Lost
from anylayer.layer import Bound
from anylayer.layer.native import NativeNode
from anylayer.network import Array, DType, Network, Node, TensorType

if TYPE_CHECKING:
    from anylayer.graph.open_sizes import OpenSizes

Run = Callable[[Mapping[str, Array]], dict[str, Array]]
"""A written file that can be run: a function from inputs by name to outputs by name."""


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


def layer_notes(nodes: Iterable[TracedNode]) -> list[str]:
    """Return notes of built-in layers on how they read params, each once, with the place of the first node."""
    places: dict[str, list[str]] = {}
    for t in nodes:
        if t.bound is not None and t.bound.definition.built_in:
            for note in t.bound.notes:
                places.setdefault(note, []).append(t.node.place)
    return [
        f"{found[0]}: {note}" + (f" (the same for {len(found) - 1} more)" if found[1:] else "")
        for note, found in places.items()
    ]


def lost_effects(nodes: Iterable[TracedNode]) -> list[str]:
    """Return notes on what the code of users' layers does and their graphs do not."""
    return [f"{t.node.place}: {note}" for t in nodes for note in t.notes if type(note) is Lost]


@dataclass(frozen=True, slots=True)
class Source:
    """A network to write.

    `graph` is the whole network in ONNX operators, as the layers recorded them. It is not simplified; a writer
    calls optimize.simplify with the rules that suit its target. The graph's inputs have the names of
    `network.inputs`, including those without consumers. Its outputs are in the order of `outputs`, which maps
    public names to values of the network. `op.scope` is the name of the node that an operator belongs to. A value
    that a node gives and an operator computes has the name that it has in the network. No node is a host call.

    A layer that stays a call of a function (`functions`) is one Op: `op` is its type, `domain` is not "", and
    `body` is the graph of the function, over the same inputs. A layer that is kept for the target (`keep`) is an
    Op with `kept` set: `attrs` are its params, flattened, and its last inputs are its blobs. Its `body`, over the
    inputs without the blobs, is what the target should compute; it is None where that is not known.

    `nodes` are those that the outputs depend on, in order. `user_types` are the layer types that a user defines.
    `sizes` are the open sizes of the inputs, with the guards of the layers: shapes have a Dim for each expression
    of them, and the graph is simplified with the rules that suit every engine. None where all sizes are numbers.
    """

    network: Network
    graph: Graph
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, str]
    nodes: Sequence[TracedNode]
    user_types: frozenset[str] = frozenset()
    sizes: OpenSizes | None = None


@dataclass(slots=True)
class Written:
    """The result of a writer.

    `files` ends with the file to open; a file of weights that the caller must name comes before it. `notes` are
    for the user. `renamed` maps public names of inputs and outputs to their names in the file, where these differ;
    `outputs` does so for outputs only. `transposed` maps public names to permutations: the file takes an input x
    as x.transpose(permutation), and its output is compared with y.transpose(permutation) of the source.

    Where kept layers prevent that the file is run, `stand_in` is a file in the same folder, not among `files`,
    that is compared in its place; kept layers compute their bodies there. Where there cannot be one, `unrun`
    says why. `reading` are the options of anylayer.read to read the files back. `runtimes` are further runtimes
    that must compute the same values, each with a function that opens the file; their outputs have the names in
    the file. `params` are params of the source's layers, by the layers' names in the file, that the file must
    have as well. The reader's `prove` compares them. `tolerance` is that of the precision that was asked for,
    where it is larger than the tolerance of the source. `precision` is that precision. `io` is the dtype of the
    floating-point inputs and outputs in the file, where it is not the source's. `settings` are those of `files`
    that people edit: an existing one with other contents is never replaced. `by_sample` is not "" where the
    samples of a batch must give the same results alone; it is the end of the message if they do not.
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
    tolerance: float = 0.0
    settings: list[Path] = field(default_factory=list)
    by_sample: str = ""
    precision: str = "float32"
    io: DType | None = None


def other_outputs(source: Source) -> dict[str, str]:
    """Return other names for outputs with the name of an input (a blob that is rewritten in place).

    A writer needs them for a format in which every value has its own name.
    """
    used = {*source.inputs, *source.outputs, *(name for node in source.network.nodes for name in node.outputs)}
    renamed: dict[str, str] = {}
    for name in source.outputs:
        if name in source.inputs:
            other = f"{name}_out"
            while other in used:
                other += "_"
            used.add(other)
            renamed[name] = other
    return renamed


def unused_name(name: str, taken: set[str]) -> str:
    """Return `name`, or the first of name_2, name_3, ... that is not in `taken`, and add it to `taken`."""
    candidate, i = name, 1
    while candidate in taken:
        i += 1
        candidate = f"{name}_{i}"
    taken.add(candidate)
    return candidate
