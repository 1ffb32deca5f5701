"""Make the blobs, weights and stages of a pycaffe network from the layers of its file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anylayer.caffe.blob import Exposed, Fed, LayerBlob, Weight
from anylayer.caffe.fillers import draw
from anylayer.caffe.net_parameter import LayerParameter
from anylayer.caffe.python_layer import BlobVec, Layer, make_layer, take_weights, traceable
from anylayer.caffe.stages import Choice, EngineStage, FilledStage, PythonStage
from anylayer.compile.nodes import trace_nodes
from anylayer.errors import InputError, LayerError, at, need
from anylayer.layer import Bound, Definition, Registry
from anylayer.layer.bound import choose
from anylayer.network import Array, Network, Node, Shape, TensorType
from anylayer.readers.caffe.build import FileLayer
from anylayer.source import TracedNode

Stage = EngineStage | PythonStage | FilledStage
Definitions = dict[str, Sequence[Definition]]


@dataclass(slots=True, eq=False)
class LayerView:
    """A layer of the network: its type and its weights."""

    type: str
    blobs: BlobVec


@dataclass(slots=True, eq=False)
class NetPart:
    """A layer of the file, as a part of the network. `stage` runs it alone; it is None for a layer that an engine
    computes or that computes nothing. `traced` is the node that replaces a Python layer which can be traced.
    `waiting` says that it has not got its weights: their shapes are not known.
    """

    layer: FileLayer
    view: LayerView | Layer
    stage: PythonStage | FilledStage | None = None
    traced: Node | None = None
    waiting: bool = True

    @property
    def name(self) -> str:
        """The name of the layer."""
        return self.layer.node.name

    @property
    def node(self) -> Node | None:
        """The node that an engine computes; None if no engine computes the layer."""
        if self.traced is not None:
            return self.traced
        idle = self.stage is not None or self.layer.role in ("input", "data", "sink")
        return None if idle else self.layer.node


@dataclass(slots=True)
class Assembly:
    """A network's layers and blobs. `blobs` maps names to blobs, and `blob_of` maps values of the network to them.

    `fed` are the blobs of data layers, which the script must write, and `unshaped` the inputs for which the file
    gives no shape. `unfilled` are the layers whose weights are neither in the file nor constants. `traced` are the
    nodes that engines compute, as they were traced when the network was made.
    """

    network: Network
    definitions: Definitions
    choice: Choice
    phase: int
    parts: list[NetPart] = field(default_factory=list)
    blobs: dict[str, LayerBlob] = field(default_factory=dict)
    blob_of: dict[str, LayerBlob] = field(default_factory=dict)
    fed: dict[str, tuple[Fed, FileLayer]] = field(default_factory=dict)
    unshaped: dict[str, LayerBlob] = field(default_factory=dict)
    unfilled: list[str] = field(default_factory=list)
    traced: list[TracedNode] = field(default_factory=list)
    exposed: Exposed = field(default_factory=Exposed)
    _shared: dict[str, Weight] = field(default_factory=dict)

    def add_layers(self, layers: Sequence[FileLayer], classes: Mapping[str, type[Layer]]) -> None:
        """Make the blobs and the layers, in computing order. `classes` are those of the Python layers, by type."""
        waiting: list[NetPart] = []
        for layer in layers:
            node = layer.node
            self._add_blobs(layer)
            cls = classes.get(node.type) if "python_param" in node.params else None
            if cls is not None:
                self._trace(waiting, lenient=True)
                waiting = []
                self.parts.append(self._python(layer, cls))
                continue
            if node.type not in self.definitions:
                self.definitions[node.type] = Registry.of("caffe").find(node.type)
            part = NetPart(layer, LayerView(node.type, BlobVec()), self._filled(node))
            self.parts.append(part)
            if part.node is not None:
                waiting.append(part)
        self._trace(waiting, lenient=True)

    def _filled(self, node: Node) -> FilledStage | None:
        """Return a stage for a layer without inputs whose outputs fillers give, None for any other layer."""
        if not any(hasattr(d.cls, "fillers") for d in self.definitions[node.type]):
            return None
        with at(node.place):
            cls: Any = choose(self.definitions[node.type], node, self.network.dialect).cls
            instance = cls.__new__(cls)
            instance.prepare(node, self.network.dialect)
            return FilledStage(instance.fillers(), node, self.blob_of)

    def _add_blobs(self, layer: FileLayer) -> None:
        """Make the blobs of the layer's tops that do not exist yet."""
        types = layer.types or [None] * len(layer.tops)
        for top, value, kind in zip(layer.tops, layer.node.outputs, types):
            if top not in self.blobs:
                shape = (0,) if kind is None else tuple(kind.shape)
                array = np.zeros(shape, np.float32)
                if layer.role == "data":
                    fed = Fed(top, array)
                    self.fed[top] = fed, layer
                    self.blobs[top] = fed
                else:
                    self.blobs[top] = LayerBlob(top, array)
                if layer.role == "input" and kind is None:
                    self.unshaped[top] = self.blobs[top]
            self.blob_of[value] = self.blobs[top]

    def _python(self, layer: FileLayer, cls: type[Layer]) -> NetPart:
        """Make and set up a layer in Python, and trace it where that is possible."""
        node = layer.node
        unknown = [b for b, v in zip(layer.bottoms, node.inputs) if self.blob_of[v].shape == (0,)]
        with at(node.place):
            need(not unknown, f"its setup needs the shape of '{''.join(unknown[:1])}', which is not known")
        parameter = LayerParameter(node.name, "Python", layer.bottoms, layer.tops, dict(node.params))
        instance = make_layer(cls, node.params["python_param"], self.phase, parameter)
        stage = PythonStage(instance, node, self.blob_of)
        stage.set_up()
        with at(node.place):
            take_weights(instance, node.blobs)
        node.blobs = [weight.frozen() for weight in instance.blobs]
        part = NetPart(layer, instance, stage)
        shapes = [self.blob_of[v].shape for v in node.outputs]
        definition = traceable(instance, f"{node.name} (Python)", shapes) if node.inputs else None
        if definition is not None:
            self._try_trace(part, definition)
        return part

    def _try_trace(self, part: NetPart, definition: Definition) -> None:
        """Let an engine compute a Python layer where it can be traced to the shapes that its reshape gave."""
        node = replace(part.layer.node, type=definition.type, blobs=[])
        definitions = {definition.type: [definition]}
        types = {v: TensorType.of(self.blob_of[v].shape) for v in node.inputs}
        (traced,) = trace_nodes(self.network, [node], definitions, types, lenient=True)
        expected = [TensorType.of(self.blob_of[v].shape) for v in node.outputs]
        if traced.body is not None and not traced.constants and traced.outputs == expected:
            part.traced = node
            self.definitions.update(definitions)

    def _trace(self, parts: Sequence[NetPart], *, lenient: bool) -> None:
        """Give the blobs of consecutive layers their shapes, and their weights to layers that have none yet."""
        by_node = {id(part.node): part for part in parts}
        nodes = [part.node for part in parts if part.node is not None]
        produced = {v for node in nodes for v in node.outputs}
        types: dict[str, TensorType | None] = {
            v: self._type(v) for node in nodes for v in node.inputs if v and v not in produced
        }
        for traced in trace_nodes(self.network, nodes, self.definitions, types, lenient=lenient):
            part = by_node[id(traced.node)]
            for value, kind in zip(traced.node.outputs, traced.outputs):
                if kind is not None and part.stage is None:
                    self.blob_of[value].producer = None
                    self.blob_of[value].reshape(*fixed(kind.shape))
            if lenient and part.traced is None and part.waiting:
                self._fill(part, traced.bound)
                self.traced.append(traced)

    def _type(self, value: str) -> TensorType | None:
        shape = self.blob_of[value].shape
        return None if shape == (0,) else TensorType.of(shape)

    def _fill(self, part: NetPart, bound: Bound | None) -> None:
        """Give a layer its weights: the file's, in the shapes that it asks for, or else those of its fillers."""
        node = part.layer.node
        typed = bound is not None and bound.definition.typed
        declared = bound.instance.wanted if bound is not None and typed else {}
        arrays = list(node.blobs)
        part.waiting = bound is None and not arrays
        if not arrays:
            with at(node.place):
                arrays = [draw(declared[i].filler, declared[i].shape) for i in sorted(declared)]
            if any(one.values() is None for one in declared.values()):
                self.unfilled.append(node.name)
        for i, array in enumerate(arrays):
            shape = declared[i].shape if i in declared else array.shape
            fits = math.prod(shape) == array.size
            part.view.blobs.append(self._weight(array.reshape(shape) if fits else array, part, i))
        node.blobs = [weight.frozen() for weight in part.view.blobs]

    def _weight(self, array: Array, part: NetPart, index: int) -> Weight:
        """Return the weight of these values, or the one of another layer that shares it."""
        name = part.layer.shared.get(index)
        shared = self._shared.get(name) if name is not None else None
        if shared is not None and shared.shape == array.shape:
            return shared
        weight = Weight(array)
        if name is not None:
            self._shared.setdefault(name, weight)
        return weight

    def reshape(self, *, lenient: bool = False) -> None:
        """Give every blob the shape that follows from the shapes of the inputs.

        lenient: ignore layers that do not take these shapes, and give weights to the layers that wait for them.
        """
        waiting: list[NetPart] = []
        for part in self.parts:
            if part.node is not None:
                waiting.append(part)
            if isinstance(part.stage, PythonStage):
                self._trace(waiting, lenient=lenient)
                waiting = []
                part.stage.reshape()
        self._trace(waiting, lenient=lenient)

    def stages(self, first: int, last: int) -> list[Stage]:
        """Return the stages of layers `first` to `last`. Blobs that later stages read, and outputs, are stored."""
        stages: list[Stage] = []
        run: list[Node] = []
        for part in self.parts[first : last + 1]:
            if part.node is not None:
                run.append(part.node)
            elif part.stage is not None:
                if run:
                    stages.append(self._engine_stage(run))
                    run = []
                stages.append(part.stage)
        if run:
            stages.append(self._engine_stage(run))
        return stages

    def _engine_stage(self, nodes: Sequence[Node]) -> EngineStage:
        return EngineStage(self.network, nodes, self.blob_of, self.definitions, self.choice)

    def need_fed(self) -> None:
        """Raise InputError for an input without a shape, and for a data layer's blob that was not written."""
        for name, unshaped in self.unshaped.items():
            need(
                unshaped.shape != (0,),
                f"{self.network.source}: the shape of input '{name}' is not in the file. Give it: "
                f"net.blobs['{name}'].reshape(1, 3, 224, 224)",
                InputError,
            )
        for name, (blob, layer) in self.fed.items():
            need(
                blob.given,
                f"{layer.node.place}: anylayer reads no training data, so blob '{name}' has no values. Write "
                f"them: net.blobs['{name}'].reshape(...); net.blobs['{name}'].data[...] = array",
                InputError,
            )


def fixed(shape: Sequence[Any]) -> Shape:
    """Return a shape with the maximum of each size that depends on data."""
    return tuple(d if isinstance(d, int) else int(d.maximum) for d in shape)


def outputs_of(parts: Sequence[NetPart]) -> list[str]:
    """Return the blobs that no layer reads, in alphabetical order (Caffe's net.cpp, Init)."""
    left: set[str] = set()
    for part in parts:
        left.difference_update(part.layer.bottoms)
        left.update(part.layer.tops)
    return sorted(left)


def store_needed(stages: Sequence[Stage], outputs: Sequence[str]) -> None:
    """Let each engine stage store the outputs, and the blobs that later stages read or that it rewrites."""
    needed = set(outputs)
    for stage in reversed(stages):
        reads = {blob.name for _, blob in stage.inputs}
        if isinstance(stage, EngineStage):
            stage.always = frozenset((needed | reads).intersection(stage.blobs))
        needed |= reads


def need_versions(stages: Sequence[Stage], places: Mapping[str, str]) -> None:
    """Raise LayerError where a stage reads a version of a blob that a layer before it has rewritten: a blob holds
    only its last version. Caffe refuses such a network. `places` are the places of the layers by their inputs."""
    written: dict[str, str] = {}
    for stage in stages:
        for value, blob in stage.inputs:
            if written.get(blob.name, value) != value:
                raise LayerError(
                    f"reads '{blob.name}' as it was before a layer rewrote it in place. Caffe refuses that; give "
                    "the rewriting layer a top of another name",
                    places.get(value, ""),
                )
        written.update(stage.values)
