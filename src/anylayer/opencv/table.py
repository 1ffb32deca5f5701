"""A network's layers as OpenCV numbers and names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from anylayer.errors import InputError, nearest, need
from anylayer.network import Array, Network, Node

INPUT = "_input"
"""The name of layer 0, whose outputs are the network's inputs."""

_NAMED_BY_TOP = "Convolution"
"""The type of the layers of Caffe that OpenCV names after their top."""
_SPELLED = {"ConvolutionDepthwise": "Convolution"}
"""Types of Caffe that OpenCV calls by another name."""
_SPLIT = {"Axpy": ("Scale", "Eltwise")}
"""Types of Caffe that OpenCV reads as two layers. The first one is called `name/scale`."""
_MATRIX = "InnerProduct"
"""The type whose weights are a matrix, and whose bias is a row."""
_WITH_MASK = "Pooling"
"""The type whose layers have a second output, the mask, where they take maxima and no layer reads them."""
_STATED = {"NHWC": "NHWC", "channels_last": "NHWC", "NCHW": "NCHW", "channels_first": "NCHW"}
_STATED |= {"NDHWC": "NHWC", "NCDHW": "NCHW"}
FIRST = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
"""The permutation that moves the channels of images and of volumes first, by rank."""
LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
"""The permutation that moves them last."""
_RESULTS = {**dict.fromkeys(FIRST.values(), "NCHW"), **dict.fromkeys(LAST.values(), "NHWC")}
"""The order of axes that a permutation results in."""
_OTHER = {"NCHW": "NHWC", "NHWC": "NCHW"}


@dataclass(slots=True)
class LayerEntry:
    """A layer: its number, name and type, the values that it computes, and its node, None for the input layer."""

    number: int
    name: str
    type: str
    values: list[str]
    node: Node | None = None

    @property
    def blobs(self) -> tuple[Array, ...]:
        """Copies of the weights in the shapes that OpenCV gives them: one axis becomes a column, or a row for a
        bias of an InnerProduct."""
        if self.node is None:
            return ()
        return tuple(self._as_matrix(i, blob.copy()) for i, blob in enumerate(self.node.blobs))

    def shaped_values(self, is_output: bool) -> list[str]:
        """Return the values whose shapes OpenCV states.

        For a mask that the layer does not write, this is the value of the maxima again: it has the same shape.
        """
        pool = self.node.params.get("pooling_param", {}).get("pool", "MAX") if self.node is not None else ""
        has_mask = self.type == _WITH_MASK and is_output and str(pool) in ("MAX", "0")
        return self.values * 2 if has_mask and len(self.values) == 1 else self.values

    def is_matrix(self, index: int) -> bool:
        """Return whether a weight is a matrix, also if one of its sizes is 1."""
        return self.type == _MATRIX and index == 0

    def _as_matrix(self, index: int, blob: Array) -> Array:
        if self.is_matrix(index) and blob.ndim > 1 and blob.size:
            return blob.reshape(blob.shape[-2], -1)
        if blob.ndim > 1:
            return blob
        return blob.reshape(1, -1) if self.type == _MATRIX else blob.reshape(-1, 1)


@dataclass(slots=True)
class LayerTable:
    """The layers of a network by number. `outputs` are those whose values are the network's outputs. `last` is the
    layer whose output a plain forward() returns: the last one by default."""

    entries: list[LayerEntry]
    outputs: list[LayerEntry]
    last: LayerEntry | None = None
    by_name: dict[str, LayerEntry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_name = {entry.name: entry for entry in self.entries}
        if self.last is None and self.entries:
            self.last = self.entries[-1]

    def find(self, layer: int | str) -> LayerEntry:
        """Return a layer by its number or name. Raises InputError where there is none."""
        if isinstance(layer, (int, np.integer)):
            last = len(self.entries) - 1
            need(0 <= layer <= last, f"there is no layer {layer}; layers have the numbers 0 to {last}", InputError)
            return self.entries[int(layer)]
        name = str(layer)
        need(name in self.by_name, f"there is no layer '{name}'{nearest(name, self.by_name)}", InputError)
        return self.by_name[name]


def table_of(network: Network) -> LayerTable:
    """Return the table of a network.

    Caffe's layers have OpenCV's names, types and numbers. In networks of other formats, nodes that compute
    constants are left out; types are the file's. Nodes of ONNX have OpenCV's names. A fused activation of TFLite
    is a layer `name/activ`, and the layer before it has no values. An output of the network whose
    name is not that of its node is one more layer, as in OpenCV.
    """
    entries = _entries(network)
    if network.format in ("caffe", "tensorflow", "tflite"):
        consumed = {name for node in network.nodes for name in node.inputs}
        return LayerTable(entries, [e for e in entries[1:] if e.values and consumed.isdisjoint(e.values)])
    outputs = []
    producers = {value: entry for entry in entries[1:] for value in entry.values}
    for name, value in network.outputs.items():
        entry = producers.get(value)
        if entry is None or entry.name != name:
            entry = LayerEntry(len(entries), name, "Identity", [value])
            entries.append(entry)
        outputs.append(entry)
    return LayerTable(entries, outputs, outputs[-1] if outputs else None)


def _entries(network: Network) -> list[LayerEntry]:
    """Return the layers of a network's nodes, after the input layer."""
    entries = [LayerEntry(0, INPUT, "", list(network.inputs))]
    names: Counter[str] = Counter()
    constants: set[str] = {""}
    caffe = network.format == "caffe"
    prefix = "onnx_node!" if network.format == "onnx" else ""
    for node in _depth_first(network) if network.format == "tensorflow" else network.nodes:
        if not caffe and constants.issuperset(node.inputs):
            constants.update(node.outputs)
            continue
        name = _top(node) if caffe else prefix + node.name
        names[name] += 1
        if names[name] > 1:
            name = f"{name}_{names[name] - 1}"
        type_ = _SPELLED.get(node.type, node.type) if caffe else node.type
        activation = node.params.get("options", {}).get("fused_activation_function", "NONE")
        if network.format == "tflite" and activation != "NONE":
            entries.append(LayerEntry(len(entries), name, type_, []))
            name, type_ = f"{name}/activ", activation
        if caffe and type_ in _SPLIT:
            first, type_ = _SPLIT[type_]
            entries.append(LayerEntry(len(entries), f"{name}/scale", first, []))
        entries.append(LayerEntry(len(entries), name, type_, list(node.outputs), node))
    return entries


def _top(node: Node) -> str:
    """Return OpenCV's name of a layer of Caffe: of a convolution the name of its top."""
    if node.type != _NAMED_BY_TOP or len(node.outputs) != 1:
        return node.name
    return node.outputs[0].removesuffix(f"@{node.name}")


def _depth_first(network: Network) -> list[Node]:
    """Return the nodes of a TensorFlow graph in the order in which OpenCV numbers them.

    Each node follows its inputs. Among the nodes whose inputs have numbers already, the one that became ready last
    is next.
    """
    consumers: dict[str, list[Node]] = {}
    waiting: dict[int, int] = {}
    ready: list[Node | str] = list(network.inputs)
    for node in network.nodes:
        waiting[id(node)] = len(node.inputs)
        for name in node.inputs:
            consumers.setdefault(name, []).append(node)
        if not node.inputs:
            ready.append(node)
    ordered = []
    while ready:
        item = ready.pop()
        if isinstance(item, Node):
            ordered.append(item)
        for name in [item] if isinstance(item, str) else item.outputs:
            for node in consumers.get(name, ()):
                waiting[id(node)] -= 1
                if not waiting[id(node)]:
                    ready.append(node)
    return ordered


def layouts_of(network: Network) -> Mapping[str, str]:
    """Return the order of axes, "NHWC" or "NCHW", that each value has where its rank is 4.

    For values of rank 5, "NHWC" stands for NDHWC.
    It is for the formats in which OpenCV's blobs are NCHW whatever the file has: TensorFlow, TFLite and Keras.
    Networks of other formats have none.
    """
    if network.format == "tflite":
        return _layouts_of_tflite(network)
    if network.format not in ("tensorflow", "keras"):
        return {}
    results = _transposed_values(network)
    layouts = {name: _layout_of_input(network, name, results) for name in network.inputs}
    for node in network.nodes:
        before = next((layouts[name] for name in node.inputs if name in layouts), "")
        layout = results.get(node.outputs[0] if node.outputs else "") or _stated_layout(node) or before
        if layout:
            layouts.update(dict.fromkeys(node.outputs, layout))
    return layouts


def _layouts_of_tflite(network: Network) -> Mapping[str, str]:
    """Return the layouts of values as OpenCV does: convolutions and inputs of rank 4 are images, and so is what is
    computed from images only, except where a RESHAPE changes the rank.
    """
    constants = {node.outputs[0]: node.blobs[0] for node in network.nodes if not node.inputs and node.blobs}
    kinds = {name: kind.shape if kind is not None else network.open[name] for name, kind in network.inputs.items()}
    layouts = {name: {4: "NHWC", 2: "planar"}.get(len(shape), "") for name, shape in kinds.items()}
    for node in network.nodes:
        before = {layouts[name] for name in node.inputs if layouts.get(name)}
        layout = before.pop() if len(before) == 1 else ""
        if node.type == "RESHAPE" and layout == "NHWC":
            sizes = constants.get(node.inputs[1]) if len(node.inputs) > 1 else node.params["options"]["new_shape"]
            layout = "NHWC" if sizes is not None and len(sizes) == 4 else "NCHW"
        layouts.update(dict.fromkeys(node.outputs, "NHWC" if node.type == "CONV_2D" else layout))
    return layouts


def _layout_of_input(network: Network, name: str, results: Mapping[str, str]) -> str:
    """Return the order of axes of an input: that of the first node after it that has one, or NHWC for images."""
    reached = {name}
    for node in network.nodes:
        if reached.isdisjoint(node.inputs):
            continue
        result = results.get(node.outputs[0] if node.outputs else "")
        stated = _stated_layout(node) if result is None else _OTHER[result]
        if stated:
            return stated
        reached.update(node.outputs)
    kind = network.inputs[name]
    return "NHWC" if kind is None or len(kind.shape) != 5 else ""  # OpenCV assumes an order for images only


def _transposed_values(network: Network) -> dict[str, str]:
    """Return the order of axes of each value that a Transpose of images computes."""
    constants = {node.outputs[0]: node.blobs[0] for node in network.nodes if not node.inputs and node.blobs}
    return {
        node.outputs[0]: _RESULTS[permutation]
        for node in network.nodes
        if node.type == "Transpose" and len(node.inputs) > 1 and node.inputs[1] in constants
        if (permutation := tuple(constants[node.inputs[1]].ravel().tolist())) in _RESULTS
    }


def _stated_layout(node: Node) -> str:
    """Return the order of axes that a node's params state, "" for none."""
    for values in node.params.values():
        text = str(values.get("data_format", "")) if isinstance(values, Mapping) else ""
        if text in _STATED:
            return _STATED[text]
    return ""
