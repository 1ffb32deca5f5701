"""From a model's configuration to a Network: nested models are inlined, and calls become nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import FileError, NetworkError, at, need, plural
from anylayer.layer import Registry
from anylayer.network import Array, DType, Network, Node, is_channels_last
from anylayer.readers._limits import MAX_GRAPH_NESTING, MAX_KERAS_NODES
from anylayer.readers._names import layer_place, unique
from anylayer.readers._order import computing_order
from anylayer.readers.keras.config import (
    Json,
    LayerCall,
    LayerConfig,
    Ref,
    layer_config,
    layer_name,
    refs_of,
    replace_refs,
    tensors,
    with_dtype_name,
    wrapped_model,
)
from anylayer.readers.keras.weights import LayerName, NoWeights, WeightGroup

_TRAINING = ("training",)
"""Arguments of calls that do not matter for inference."""
_NO_WEIGHTS: WeightGroup = NoWeights()
_MASK = Ref("", -1, 0)
"""Stands for the implicit mask in the arguments of a call."""
CallKey = tuple[str, int]
"""The name of a layer, and the number of one of its calls."""
_DTYPES: dict[str, DType] = {
    **{name: np.dtype(name) for name in ("float32", "int32", "int64", "int8", "uint8", "int16", "uint16", "bool")},
    "float16": np.dtype("float32"),
    "bfloat16": np.dtype("float32"),
    "float64": np.dtype("float32"),
}
"""The dtype of an input by the file's dtype. Networks are computed in float32."""


@dataclass
class _Building:
    """The network under construction.

    `names` are the names of nodes and values that are taken; `formats` the values of data_format that layers
    state. `arrays_of` holds the weights that have been read, by the identity of their WeightGroup, and
    `layers_of` those of a model's layers. `masks` maps a value to the mask that Keras passes on with it.
    """

    network: Network
    user_types: frozenset[str]
    names: dict[str, int] = field(default_factory=dict)
    formats: set[str] = field(default_factory=set)
    arrays_of: dict[int, tuple[WeightGroup, list[Array]]] = field(default_factory=dict)
    layers_of: dict[int, tuple[WeightGroup, dict[str, WeightGroup]]] = field(default_factory=dict)
    masks: dict[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> str:
        """Return the data layout of the network: see Node.layout."""
        if {"channels_first", "channels_last"} <= self.formats:
            return "mixed"
        return "NCHW" if "channels_first" in self.formats else "NHWC"

    def arrays(self, weights: WeightGroup | None, config: Json) -> list[Array]:
        """Return a layer's weights. They are read once for all calls of the layer."""
        if weights is None:
            return []
        if id(weights) not in self.arrays_of:
            self.arrays_of[id(weights)] = (weights, weights.arrays(config))
        return self.arrays_of[id(weights)][1]

    def layers(self, weights: WeightGroup, names: Sequence[LayerName]) -> dict[str, WeightGroup]:
        """Return the weights of a model's layers. They are the same for all calls of the model."""
        if id(weights) not in self.layers_of:
            self.layers_of[id(weights)] = (weights, weights.layers(names))
        return self.layers_of[id(weights)][1]

    def is_picture(self, name: str) -> bool:
        """Return whether an input has the shape of channels-last pictures."""
        type_ = self.network.inputs[name]
        shape = self.network.open.get(name) or (type_.shape if type_ is not None else ())
        return is_channels_last(shape) and "channels_first" not in self.formats


def network_of(
    config: Json, weights: WeightGroup, version: str, source: str, user_types: frozenset[str]
) -> Network:
    """Return the network of a model's JSON: {"class_name", "config": {"name", "layers", ...}}.

    The dialect is "keras2" if `version`, Keras' version, begins with 2. Raise FileError or NetworkError.
    """
    kind, inner = str(config.get("class_name", "")), config.get("config")
    need(kind, "the JSON has no class_name, so it is not a Keras model", FileError)
    if isinstance(inner, list):  # Keras 2.2 and before store only the layers of a sequential model
        inner = {"name": "sequential", "layers": inner}
    if not isinstance(inner, dict):
        raise FileError("the JSON has no config, so it is not a Keras model")
    model = LayerConfig(str(inner.get("name") or "model"), kind, "", dict(inner), [])
    need(
        model.is_model,
        f"a model of class '{kind}' is Python code: the file has its weights, but not its layers. Rebuild it as a "
        "functional model, or export it (model.export) and read the SavedModel or ONNX file",
        FileError,
    )
    network = Network(model.name, "keras", {}, [], {}, source=source, weights_file=".weights.h5")
    network.dialect = "keras2" if version.startswith("2") else None
    network.weights = "" if isinstance(weights, NoWeights) else source
    building = _Building(network, user_types)
    with at(source):
        counts: dict[str, int] = {}
        for name, value in _add_model(building, model, weights, "", None, 0):
            network.outputs[unique(name, counts)] = value
        need(network.outputs, "the model has no outputs", NetworkError)
    for node in network.nodes:
        node.layout = building.layout
    network.layouts = {name: "NHWC" for name in network.inputs if building.is_picture(name)}
    return network


def _add_model(
    building: _Building,
    model: LayerConfig,
    weights: WeightGroup,
    prefix: str,
    inputs: list[str] | None,
    depth: int,
) -> list[tuple[str, str]]:
    """Add a model's layers. Return its outputs: the layer's name and the value of each.

    `inputs` are the values of the model's inputs, or None if they are the network's inputs. The names of the nodes
    begin with `prefix`.
    """
    need(depth < MAX_GRAPH_NESTING, f"models are nested deeper than {MAX_GRAPH_NESTING}", FileError)
    items = model.config["layers"]
    names = [n for item in items if isinstance(item, dict) for n in [layer_name(item)] if n]
    listed = [layer_config(item, names) for item in items]
    need(listed, "the model has no layers", FileError)
    layers = {layer.name: layer for layer in listed}
    if len(layers) < len(listed):
        twice = next(layer.name for i, layer in enumerate(listed) if layer.name in {o.name for o in listed[:i]})
        raise NetworkError(f"the model has two layers named '{twice}'")
    owned = building.layers(weights, [(layer.name, layer.kind) for layer in listed if not layer.is_operation])
    keras3 = any(layer.keras3 for layer in listed)
    functional = "output_layers" in model.config
    adding = _AddingModel(building, layers, owned, prefix, depth, keras3, passes_masks=not (keras3 and functional))
    return adding.functional(model, inputs) if functional else adding.sequential(model, listed, inputs)


@dataclass
class _AddingModel:
    """A model whose layers are being added to the network. `values` maps its tensors to values of the network."""

    building: _Building
    layers: dict[str, LayerConfig]
    weights: dict[str, WeightGroup]
    prefix: str
    depth: int
    keras3: bool
    """Return whether calls are written in Keras 3's form."""
    passes_masks: bool
    """Return whether masks are passed on implicitly.

    A functional model of Keras 3 names them in its calls instead.
    """
    values: dict[Ref, str] = field(default_factory=dict)

    def sequential(
        self, model: LayerConfig, listed: list[LayerConfig], inputs: list[str] | None
    ) -> list[tuple[str, str]]:
        """Add the layers of a sequential model. Return its output, as `_add_model` does."""
        first = listed[0]
        if inputs is None:
            value = self.add_input(first, model.config.get("build_input_shape"))
        else:
            need(len(inputs) == 1, f"a sequential model takes 1 input, got {len(inputs)}", NetworkError)
            value = inputs[0]
        tensor = Ref("", 0, 0)
        for layer in listed[1:] if first.is_input else listed:
            with at(layer.place):
                need(not layer.is_input, "only the first layer of a sequential model is an input", NetworkError)
                self.values[tensor] = value
                value = self.add_call(layer, 0, LayerCall([tensor]), 1)[0]
        return [(listed[-1].name, value)]

    def functional(self, model: LayerConfig, inputs: list[str] | None) -> list[tuple[str, str]]:
        """Add the layers of a functional model. Return its outputs, as `_add_model` does."""
        expected = refs_of(model.config.get("input_layers", []))
        need(
            inputs is None or len(inputs) == len(expected),
            f"the model takes {plural(len(expected), 'input')}, got {len(inputs or ())}",
            NetworkError,
        )
        for i, ref in enumerate(expected):
            rule = f"the model's input '{ref.layer}' is not one of its layers"
            need(ref.layer in self.layers, rule, NetworkError)
            self.values[ref] = self.add_input(self.layers[ref.layer], None) if inputs is None else inputs[i]
        outputs = [self._renumber(ref) for ref in refs_of(model.config["output_layers"])]
        self.add_calls(outputs)
        return [(ref.layer, self.values[ref]) for ref in outputs]

    def add_calls(self, outputs: list[Ref]) -> None:
        """Add every call of every layer, in the file's order where the inputs allow it.

        Raise NetworkError if one of the outputs cannot be computed.
        """
        calls = self._calls()
        counts = _output_counts(calls.values(), outputs)
        available = {ref[:2] for ref in self.values}
        ordered = computing_order(
            {key: {ref[:2] for ref in call.refs()} - available for key, call in calls.items()}
        )
        for key in ordered:
            layer = self.layers[key[0]]
            with at(layer.place):
                outputs_of_call = self.add_call(layer, key[1], calls[key], counts.get(key, 1))
            self.values.update({Ref(*key, i): value for i, value in enumerate(outputs_of_call)})
        computed = {*available, *ordered}
        for ref in outputs:
            if ref[:2] not in computed:
                raise NetworkError(self._missing(ref, calls, computed))
            self.value(ref)

    def _missing(self, ref: Ref, calls: dict[CallKey, LayerCall], computed: set[CallKey]) -> str:
        """Return the rule that makes an output impossible: a cycle, or a call that does not exist."""
        seen: list[Ref] = []
        while ref[:2] in calls and ref not in seen:
            seen.append(ref)
            ref = next((r for r in calls[ref[:2]].refs() if r[:2] not in computed), ref)
        if ref in seen:
            return f"the layers form a cycle: {' < '.join(r.layer for r in seen[seen.index(ref) :])} < {ref.layer}"
        consumer = f"layer '{seen[-1].layer}'" if seen else "the list of the model's outputs"
        return f"{consumer} reads call {ref.call} of layer '{ref.layer}', which does not exist"

    def _calls(self) -> dict[CallKey, LayerCall]:
        """Return the calls of all layers."""
        calls: dict[CallKey, LayerCall] = {}
        for layer in self.layers.values():
            for i, call in enumerate(layer.calls):
                if not self.keras3:
                    call = LayerCall(
                        *(replace_refs(argument, self._renumber) for argument in (call.args, call.kwargs))
                    )
                calls[layer.name, i] = call
        return calls

    def _renumber(self, ref: Ref) -> Ref:
        """Return a tensor whose call is counted from 0.

        The first call of a functional model is the one that builds it. Keras 2 counts this call everywhere, and
        that of a sequential model too; Keras 3 counts it only in the list of outputs.
        """
        layer = self.layers.get(ref.layer)
        builds = layer is not None and layer.is_model and ("output_layers" in layer.config or not self.keras3)
        return ref._replace(call=ref.call - 1) if builds and ref.call > 0 else ref

    def value(self, ref: Ref) -> str:
        """Return the network's name of a tensor. Raise NetworkError if its layer has no such output."""
        need(ref in self.values, f"layer '{ref.layer}' has no output {ref.output}", NetworkError)
        return self.values[ref]

    def add_call(self, layer: LayerConfig, number: int, call: LayerCall, outputs: int) -> list[str]:
        """Add one call of a layer, as a node or as the nodes of a nested model. Return the values of its outputs.

        `number` counts the calls of the layer, and `outputs` is the number of outputs that are read.
        """
        building = self.building
        name = f"{layer.name}_{number}" if number else layer.name
        label = self.prefix + (f"{layer.name}@{number}" if number and name in self.layers else name)
        data_format = layer.config.get("data_format")
        if isinstance(data_format, str):
            building.formats.add(data_format)
        inner = wrapped_model(layer)
        if inner is not None:
            return self._add_per_step(layer, inner, label, call)
        if layer.is_model:
            return self._add_nested(layer, label, call)
        need(
            len(building.network.nodes) < MAX_KERAS_NODES,
            f"the network has more than {MAX_KERAS_NODES} layers",
            FileError,
        )
        kind, name = self._node_type(layer), unique(label, building.names)
        cls = _class(kind) if self.passes_masks and kind not in building.user_types else None
        mask = self._passed_mask(cls, [self.value(ref) for ref in call.refs()], call)
        if mask and cls is not None and cls.masks == "takes":
            call = LayerCall(call.args, {**call.kwargs, "mask": _MASK})
        makes = cls is not None and cls.masks == "makes" and cls.makes_mask(layer.config)
        more = range(1, max(outputs, 1 + makes))
        node = Node(
            name=name,
            type=kind,
            inputs=[mask if ref == _MASK else self.value(ref) for ref in call.refs()],
            outputs=[name, *(unique(f"{name}:{i}", building.names) for i in more)],
            params=_params(layer, call),
            blobs=list(building.arrays(self.weights.get(layer.name), layer.config)),
            place=layer_place(name, layer.kind, building.network.source),
        )
        building.network.nodes.append(node)
        if makes or (mask and cls is not None and cls.masks):
            building.masks[name] = node.outputs[1] if makes else mask
        return node.outputs

    def _add_nested(self, layer: LayerConfig, label: str, call: LayerCall) -> list[str]:
        """Add the nodes of a nested model. Return the values of its outputs."""
        plain = LayerCall(call.args, {k: v for k, v in call.kwargs.items() if k not in _TRAINING and k != "mask"})
        need(
            not plain.kwargs,
            f"a nested model is called with {', '.join(plain.kwargs)}, which is not supported",
            NetworkError,
        )
        inputs = [self.value(ref) for ref in plain.refs()]
        for name, ref in zip(inputs, tensors(call.kwargs.get("mask"))):
            self.building.masks[name] = self.value(ref)
        weights = self.weights.get(layer.name, _NO_WEIGHTS)
        outputs = _add_model(self.building, layer, weights, f"{label}/", inputs, self.depth + 1)
        need(outputs, "the nested model has no outputs", NetworkError)
        self.building.network.blobs.setdefault(label, outputs[0][1])
        return [value for _, value in outputs]

    def _add_per_step(self, layer: LayerConfig, inner: LayerConfig, label: str, call: LayerCall) -> list[str]:
        """Add a wrapper that applies a model to each step of a sequence. Return the values of its outputs.

        A node named "join" merges the steps into the batch axis before the model, and a node named "part" splits
        this axis after it.
        """
        inputs = [self.value(ref) for ref in LayerCall(call.args).refs()]
        need(len(inputs) == 1, f"it has {len(inputs)} inputs, expected 1", NetworkError)

        def add_node(part: str, inputs: list[str]) -> str:
            name = unique(f"{label}/{part}", self.building.names)
            place = layer_place(name, layer.kind, self.building.network.source)
            node = Node(name, f"{layer.kind}.{part}", inputs, [name], {"config": {}}, place=place)
            self.building.network.nodes.append(node)
            return name

        joined = add_node("join", inputs)
        weights = self.weights.get(layer.name, _NO_WEIGHTS).inner_weights()
        outputs = _add_model(self.building, inner, weights, f"{label}/", [joined], self.depth + 1)
        return [add_node("part", [value, *inputs]) for _, value in outputs]

    def _passed_mask(self, cls: Any, inputs: list[str], call: LayerCall) -> str:
        """Return the mask that is passed on with a layer's inputs; "" if there is none or the call names one."""
        if not self.passes_masks or cls is None or "mask" in call.kwargs:
            return ""
        masks = self.building.masks
        masks_of_inputs = {masks.get(name, "") for name in inputs} or {""}
        need(
            cls.masks != "refuses" or masks_of_inputs == {""},
            "a layer before it passes a mask (as mask_zero does), which this layer does not support",
            NetworkError,
        )
        need(
            cls.masks != "joins" or len(masks_of_inputs) == 1,
            "its inputs have different masks, which is not supported",
            NetworkError,
        )
        return masks.get(inputs[0], "") if inputs else ""

    def _node_type(self, layer: LayerConfig) -> str:
        """Return a node's type, which is the layer's class in most cases.

        The type of a function is its name ("ops.Add", "tf.math.add"). The type of a layer of Python code is the
        layer's own name if the user defines that type.
        """
        user_types = self.building.user_types
        if layer.is_operation and layer.kind not in user_types:
            return f"ops.{layer.kind}"
        function = layer.config.get("function")
        if isinstance(function, str) and layer.kind.endswith("OpLambda"):
            return f"tf.{function}"
        if function is not None and layer.name in user_types and layer.kind not in user_types:
            return layer.name
        return layer.kind

    def add_input(self, layer: LayerConfig, built_shape: Any) -> str:
        """Add an input of the network and return its name.

        `built_shape` is the input shape of a sequential model that begins without an input layer.
        """
        config = layer.config
        shape = config.get("batch_shape") or config.get("batch_input_shape") or built_shape
        while not layer.is_input and layer.is_model and not shape:  # the sequence begins with a nested model
            need(layer.config["layers"], "the model has no layers", FileError)
            layer = layer_config(layer.config["layers"][0])
            shape = layer.config.get("batch_shape") or layer.config.get("batch_input_shape")
        name = unique(layer.name if layer.is_input else f"{layer.name}_input", self.building.names)
        dtype = config.get("dtype")
        if not layer.is_input or not isinstance(dtype, str):
            dtype = "int32" if isinstance(dtype, str) and dtype.startswith("int") else "float32"
        with at(f"input '{name}'"):
            is_list = isinstance(shape, list) and all(d is None or (type(d) is int and d > 0) for d in shape)
            need(shape is None or is_list, f"a shape must be a list of sizes, got {shape!r}", FileError)
            rule = f"dtype '{dtype}' is not supported; supported dtypes: {', '.join(_DTYPES)}"
            need(dtype in _DTYPES, rule, FileError)
            self.building.network.add_input(name, shape, _DTYPES[dtype])
        return name


def _output_counts(calls: Iterable[LayerCall], outputs: list[Ref]) -> dict[CallKey, int]:
    """Return the number of outputs of each call that are read, by calls or as outputs of the model.

    Raise FileError if they are more than MAX_KERAS_NODES.
    """
    counts: dict[CallKey, int] = {}
    for ref in [*(ref for call in calls for ref in call.refs()), *outputs]:
        counts[ref[:2]] = max(counts.get(ref[:2], 1), ref.output + 1)
    total = sum(counts.values())
    need(total <= MAX_KERAS_NODES, f"the layers have more than {MAX_KERAS_NODES} outputs", FileError)
    return counts


def _class(kind: str) -> Any:
    """Return the built-in class of a type, or None."""
    definitions = Registry.of("keras").find(kind)
    return definitions[0].cls if definitions and definitions[0].typed else None


def _params(layer: LayerConfig, call: LayerCall) -> dict[str, Any]:
    """Return a node's params: the layer's configuration, and its call unless the arguments are only tensors.

    In the call, a tensor is {"input": index}.
    """
    params: dict[str, Any] = {"config": with_dtype_name(layer.config)}
    kwargs = {key: value for key, value in call.kwargs.items() if key not in _TRAINING}
    args = call.args[0] if len(call.args) == 1 and isinstance(call.args[0], list) else call.args
    function = layer.is_operation or layer.kind.endswith("OpLambda")
    if kwargs or function or not all(isinstance(arg, Ref) for arg in args):
        count = iter(range(len(call.refs())))

        def next_input(_: Ref) -> dict[str, int]:
            return {"input": next(count)}

        spec: dict[str, Any] = {"args": replace_refs(call.args, next_input)}
        rest = {key: call.kwargs[key] for key in sorted(call.kwargs)}
        spec["kwargs"] = {key: v for key, v in replace_refs(rest, next_input).items() if key not in _TRAINING}
        params["call"] = spec
    return params
