"""From a model's configuration to nodes: calls in computing order, nested models in place, weights beside."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import FileError, NetworkError, at, need
from anylayer.layer import Registry
from anylayer.network import Array, Network, Node, TensorType
from anylayer.readers.keras.calls import Call, Ref, calls_of, own_kind, refs_of, replaced, tensors
from anylayer.readers.keras.weights import NoWeights, Weights

_DEPTH = 32
_MOST = 1 << 20
"""Nodes that no model has: nested models that are called many times multiply."""
_TRAINING = ("training",)
"""Arguments of calls that say nothing about inference."""


@dataclass(slots=True)
class Entry:
    """A layer of a model: its configuration, and its calls."""

    name: str
    kind: str
    module: str
    config: dict[str, Any]
    calls: list[Call]
    new: bool = False
    """Whether its calls are written as Keras 3 writes them."""

    @property
    def is_operation(self) -> bool:
        """Whether it is a call of a function of keras.ops, and no layer object."""
        bare = self.new and "trainable" not in self.config and not self.is_input and not self.is_model
        return self.module.startswith("keras.src.ops") or (not self.module and bare)

    @property
    def is_input(self) -> bool:
        """Whether it gives a model's input."""
        return ("batch_shape" in self.config or "batch_input_shape" in self.config) and "sparse" in self.config

    @property
    def is_model(self) -> bool:
        """Whether it has layers of its own."""
        return isinstance(self.config.get("layers"), list)

    @property
    def place(self) -> str:
        return f"layer '{self.name}' ({self.kind})"


def entry(item: Any, layers: Sequence[str] = ()) -> Entry:
    """A layer from the JSON of a model's list."""
    need(isinstance(item, dict), f"a layer must be an object, got {item!r}", FileError)
    kind, config = item.get("class_name"), item.get("config")
    if not isinstance(kind, str) or not isinstance(config, dict):
        raise FileError("a layer needs class_name and config")
    name, kind = _name(item), own_kind(item, kind)
    need(name, f"a layer ({kind}) has no name", FileError)
    module = item.get("module")
    with at(f"layer '{name}' ({kind})"):
        calls = calls_of(item.get("inbound_nodes", []), layers)
    nodes = item.get("inbound_nodes", [])
    new = bool(nodes) and isinstance(nodes[0], dict)
    return Entry(name, kind, module if isinstance(module, str) else "", config, calls, new)


@dataclass
class Graph:
    """The network as it grows."""

    source: str
    user_types: frozenset[str]
    nodes: list[Node] = field(default_factory=list)
    inputs: dict[str, TensorType | None] = field(default_factory=dict)
    open: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    blobs: dict[str, str] = field(default_factory=dict)
    formats: set[str] = field(default_factory=set)
    kept: dict[int, tuple[Weights, list[Array]]] = field(default_factory=dict)
    masks: dict[str, str] = field(default_factory=dict)
    """The masks that go along with values by themselves."""

    @property
    def layout(self) -> str:
        """The order of axes of pictures: see Node.layout."""
        if {"channels_first", "channels_last"} <= self.formats:
            return "mixed"
        return "NCHW" if "channels_first" in self.formats else "NHWC"

    def unique(self, name: str) -> str:
        """`name`, or with a number behind it where it is taken."""
        found, count = name, 1
        while found in self.names:
            found, count = f"{name}_{count}", count + 1
        self.names.add(found)
        return found

    def arrays(self, weights: Weights | None) -> list[Array]:
        """A layer's weights, read once for all its calls."""
        if weights is None:
            return []
        if id(weights) not in self.kept:
            self.kept[id(weights)] = (weights, weights.arrays())
        return self.kept[id(weights)][1]


def network_of(
    config: dict[str, Any], weights: Weights, version: str, source: str, user_types: frozenset[str]
) -> Network:
    """The network of a model's JSON: {"class_name", "config": {"name", "layers", ...}}. Of Keras 2's `version`s
    the dialect is "keras2"."""
    kind, inner = str(config.get("class_name", "")), config.get("config")
    need(kind, "the JSON has no class_name, so it is no Keras model", FileError)
    if isinstance(inner, list):  # Keras 2.2 and before: a sequential model's layers alone
        inner = {"name": "sequential", "layers": inner}
    if not isinstance(inner, dict):
        raise FileError("the JSON has no config, so it is no Keras model")
    model = Entry(str(inner.get("name") or "model"), kind, "", dict(inner), [])
    need(
        model.is_model,
        f"a model of class '{kind}' is Python code: the file holds its weights, not its layers. Rebuild it as a "
        "functional model, or export it (model.export) and read the SavedModel or ONNX file",
        FileError,
    )
    graph = Graph(source, user_types)
    with at(source):
        outputs = _expand(graph, model, weights, "", None, 0)
        public: dict[str, str] = {}
        for name, value in outputs:
            label, count = name, 1
            while label in public:
                label, count = f"{name}_{count}", count + 1
            public[label] = value
        need(public, "the model has no outputs", NetworkError)
    for node in graph.nodes:
        node.layout = graph.layout
    return Network(
        name=model.name,
        format="keras",
        inputs=graph.inputs,
        nodes=graph.nodes,
        outputs=public,
        blobs=graph.blobs,
        dialect="keras2" if version.startswith("2") else None,
        source=source,
        weights="" if isinstance(weights, NoWeights) else source,
        open=graph.open,
        layouts={name: "NHWC" for name in graph.inputs if _is_picture(graph, name)},
    )


def _is_picture(graph: Graph, name: str) -> bool:
    known = graph.inputs[name]
    shape = graph.open.get(name) or (known.shape if known is not None else ())
    return len(shape) == 4 and shape[-1] in (1, 3, 4) and "channels_first" not in graph.formats


def _expand(
    graph: Graph, model: Entry, weights: Weights, prefix: str, given: list[str] | None, depth: int
) -> list[tuple[str, str]]:
    """Enter a model's layers. `given` are the values of its inputs, None for the network's own. Answers the
    outputs: the layer's name, the value."""
    need(depth < _DEPTH, f"models are nested deeper than {_DEPTH}", FileError)
    items = model.config["layers"]
    names = [n for item in items if isinstance(item, dict) for n in [_name(item)] if n]
    entries = [entry(item, names) for item in items]
    need(entries, "the model has no layers", FileError)
    layers = {e.name: e for e in entries}
    if len(layers) < len(entries):
        twice = next(e.name for i, e in enumerate(entries) if e.name in {o.name for o in entries[:i]})
        raise NetworkError(f"the model has two layers named '{twice}'")
    owned = weights.layers([(e.name, e.kind) for e in entries if not e.is_operation])
    new = any(e.new for e in entries)
    scope = _Scope(
        graph, layers, owned, prefix, depth, new, implicit=not (new and "output_layers" in model.config)
    )
    if "output_layers" in model.config:
        return scope.functional(model, given)
    return scope.sequential(model, entries, given)


def _name(item: dict[str, Any]) -> str:
    config = item.get("config")
    found = item.get("name") or (config.get("name") if isinstance(config, dict) else None)
    return found if isinstance(found, str) else ""


@dataclass
class _Scope:
    """One model while its layers are entered."""

    graph: Graph
    layers: dict[str, Entry]
    weights: dict[str, Weights]
    prefix: str
    depth: int
    new: bool
    """Whether calls are written as Keras 3 writes them."""
    implicit: bool
    """Whether masks go along by themselves: a functional model of Keras 3 names them in its calls."""
    values: dict[Ref, str] = field(default_factory=dict)

    def sequential(self, model: Entry, entries: list[Entry], given: list[str] | None) -> list[tuple[str, str]]:
        first = entries[0]
        if given is None:
            value = self.input(first, model.config.get("build_input_shape"))
        else:
            need(len(given) == 1, f"a sequential model takes 1 input, got {len(given)}", NetworkError)
            value = given[0]
        for layer in entries[1:] if first.is_input else entries:
            with at(layer.place):
                need(not layer.is_input, "only the first layer of a sequential model is an input", NetworkError)
                value = self.call(layer, 0, Call([Ref("", 0, 0)]), lambda _, v=value: v, 1)[0]  # type: ignore[misc]
        return [(entries[-1].name, value)]

    def functional(self, model: Entry, given: list[str] | None) -> list[tuple[str, str]]:
        wanted = refs_of(model.config.get("input_layers", []))
        need(
            given is None or len(given) == len(wanted),
            f"the model takes {len(wanted)} inputs, got {len(given or ())}",
            NetworkError,
        )
        for i, ref in enumerate(wanted):
            need(ref.layer in self.layers, f"the model's input '{ref.layer}' is none of its layers", NetworkError)
            self.values[ref] = self.input(self.layers[ref.layer], None) if given is None else given[i]
        outputs = [self._counted(ref) for ref in refs_of(model.config["output_layers"])]
        self.run(outputs)
        return [(ref.layer, self.values[ref]) for ref in outputs]

    def run(self, outputs: list[Ref]) -> None:
        """Enter every call of every layer, in the file's order as far as inputs allow."""
        calls = self._numbered()
        counts: dict[tuple[str, int], int] = {}
        for call, _ in calls.values():
            for ref in call.refs():
                counts[ref[:2]] = max(counts.get(ref[:2], 1), ref.output + 1)
        for ref in outputs:
            counts[ref[:2]] = max(counts.get(ref[:2], 1), ref.output + 1)
        need(sum(counts.values()) <= _MOST, f"the layers have more than {_MOST} outputs", FileError)
        order = {key: i for i, key in enumerate(calls)}
        readers: dict[tuple[str, int], list[tuple[str, int]]] = {}
        missing: dict[tuple[str, int], int] = {}
        given = {ref[:2] for ref in self.values}
        for key, (call, _) in calls.items():
            needs = {ref[:2] for ref in call.refs()} - given
            missing[key] = len(needs)
            for other in needs:
                readers.setdefault(other, []).append(key)
        ready = [order[key] for key, count in missing.items() if not count]
        heapq.heapify(ready)
        keys, done = list(calls), set(given)
        while ready:
            key = keys[heapq.heappop(ready)]
            self._enter(key, *calls[key], counts.get(key, 1))
            done.add(key)
            for reader in readers.get(key, ()):
                missing[reader] -= 1
                if not missing[reader]:
                    heapq.heappush(ready, order[reader])
        for ref in outputs:
            need(ref[:2] in done, self._unreached(ref, calls, done), NetworkError)
            need(ref in self.values, f"layer '{ref.layer}' has no output {ref.output}", NetworkError)

    def _unreached(self, ref: Ref, calls: dict[Any, Any], done: set[Any]) -> str:
        seen: list[Ref] = []
        while ref[:2] in calls and ref not in seen:
            seen.append(ref)
            ref = next((r for r in calls[ref[:2]][0].refs() if r[:2] not in done), ref)
        if ref in seen:
            return f"the layers form a cycle: {' < '.join(r.layer for r in seen[seen.index(ref) :])} < {ref.layer}"
        reader = seen[-1].layer if seen else "the model's outputs"
        return f"'{reader}' reads call {ref.call} of layer '{ref.layer}', which there is not"

    def _numbered(self) -> dict[tuple[str, int], tuple[Call, int]]:
        """Calls by layer and number."""
        found: dict[tuple[str, int], tuple[Call, int]] = {}
        for layer in self.layers.values():
            for i, call in enumerate(layer.calls):
                if not self.new:
                    call = Call(*(replaced(given, self._counted) for given in (call.args, call.kwargs)))
                found[layer.name, i] = (call, i)
        return found

    def _counted(self, ref: Ref) -> Ref:
        """A tensor whose call is counted from 0. A functional model's first call is its own building: Keras 2
        counts it everywhere (and a sequential model's), Keras 3 in the list of outputs."""
        layer = self.layers.get(ref.layer)
        builds = layer is not None and layer.is_model and ("output_layers" in layer.config or not self.new)
        return ref._replace(call=ref.call - 1) if builds and ref.call > 0 else ref

    def _enter(self, key: tuple[str, int], call: Call, number: int, outputs: int) -> None:
        layer = self.layers[key[0]]
        with at(layer.place):
            found = self.call(layer, number, call, self.value, outputs)
        for i, value in enumerate(found):
            self.values[Ref(*key, i)] = value

    def value(self, ref: Ref) -> str:
        """A tensor's value."""
        need(ref in self.values, f"layer '{ref.layer}' has no output {ref.output}", NetworkError)
        return self.values[ref]

    def call(self, layer: Entry, number: int, call: Call, value: Callable[[Ref], str], outputs: int) -> list[str]:
        """Enter one call of a layer: a node, or a nested model's nodes. Answers the outputs' values."""
        label = f"{self.prefix}{layer.name}" + (f"@{number}" if number else "")
        data_format = layer.config.get("data_format")
        if isinstance(data_format, str):
            self.graph.formats.add(data_format)
        wrapped = layer.config.get("layer")
        if isinstance(wrapped, dict) and (held := _held(wrapped)) is not None:
            return self._stepwise(layer, held, label, call, value)
        if layer.is_model:
            return self._nested(layer, label, call, value)
        need(len(self.graph.nodes) < _MOST, f"the network has more than {_MOST} layers", FileError)
        kind, name = self._type(layer), self.graph.unique(label)
        cls = _class(kind) if self.implicit and kind not in self.graph.user_types else None
        mask = self._mask(cls, [value(ref) for ref in call.refs()], call)
        if mask and cls is not None and cls.masks == "takes":
            call = Call(call.args, {**call.kwargs, "mask": _MASK})
        makes = cls is not None and cls.masks == "makes" and cls.makes_mask(layer.config)
        node = Node(
            name=name,
            type=kind,
            inputs=[mask if ref == _MASK else value(ref) for ref in call.refs()],
            outputs=[name, *(self.graph.unique(f"{name}:{i}") for i in range(1, max(outputs, 1 + makes)))],
            params=_params(layer, call),
            blobs=list(self.graph.arrays(self.weights.get(layer.name))),
            place=f"{self.graph.source}: layer '{name}' ({layer.kind})",
        )
        self.graph.nodes.append(node)
        if makes or (mask and cls is not None and cls.masks):
            self.graph.masks[name] = node.outputs[1] if makes else mask
        return node.outputs

    def _nested(self, layer: Entry, label: str, call: Call, value: Callable[[Ref], str]) -> list[str]:
        """Enter a nested model's nodes."""
        given = Call(call.args, {k: v for k, v in call.kwargs.items() if k not in _TRAINING and k != "mask"})
        need(
            not given.kwargs,
            f"a nested model is called with {', '.join(given.kwargs)}, not supported",
            NetworkError,
        )
        inputs = [value(ref) for ref in given.refs()]
        for name, ref in zip(inputs, tensors(call.kwargs.get("mask"))):
            self.graph.masks[name] = value(ref)
        weights = self.weights.get(layer.name, _NONE)
        found = _expand(self.graph, layer, weights, f"{label}/", inputs, self.depth + 1)
        need(found, "the nested model has no outputs", NetworkError)
        self.graph.blobs.setdefault(label, found[0][1])
        return [v for _, v in found]

    def _stepwise(
        self, layer: Entry, held: Entry, label: str, call: Call, value: Callable[[Ref], str]
    ) -> list[str]:
        """Enter a wrapper that applies a model to each step: the steps become items of the batch and are parted
        again behind it, by layers of their own."""
        begins, more = [value(ref) for ref in Call(call.args).refs()], self.weights.get(layer.name, _NONE)
        need(len(begins) == 1, f"takes 1 input, got {len(begins)}", NetworkError)
        begin = begins[0]

        def node(part: str, inputs: list[str]) -> str:
            name = self.graph.unique(f"{label}/{part}")
            place = f"{self.graph.source}: layer '{name}' ({layer.kind})"
            self.graph.nodes.append(
                Node(name, f"{layer.kind}.{part}", inputs, [name], {"config": {}}, place=place)
            )
            return name

        joined = node("join", [begin])
        found = _expand(self.graph, held, more.wrapped(), f"{label}/", [joined], self.depth + 1)
        return [node("part", [inner, begin]) for _, inner in found]

    def _mask(self, cls: Any, inputs: list[str], call: Call) -> str:
        """The mask that comes along with a layer's inputs, where it goes on by itself; else ""."""
        if not self.implicit or cls is None or "mask" in call.kwargs:
            return ""
        found = {self.graph.masks.get(name, "") for name in inputs} or {""}
        need(
            cls.masks != "refuses" or found == {""},
            "is given a mask by a layer before it (as mask_zero asks), which is not supported here",
            NetworkError,
        )
        need(
            cls.masks != "joins" or len(found) == 1,
            "joins inputs with different masks, which is not supported",
            NetworkError,
        )
        return self.graph.masks.get(inputs[0], "") if inputs else ""

    def _type(self, layer: Entry) -> str:
        """The node's type: the class; the layer's own name where the user defines that for a layer of Python
        code; the function for a function."""
        if layer.is_operation and layer.kind not in self.graph.user_types:
            return f"ops.{layer.kind}"
        function = layer.config.get("function")
        if isinstance(function, str) and layer.kind.endswith("OpLambda"):
            return f"tf.{function}"
        if (
            function is not None
            and layer.name in self.graph.user_types
            and layer.kind not in self.graph.user_types
        ):
            return layer.name
        return layer.kind

    def input(self, layer: Entry, built: Any) -> str:
        """Enter an input of the network."""
        config = layer.config
        shape = config.get("batch_shape") or config.get("batch_input_shape") or built
        while not layer.is_input and layer.is_model and not shape:  # a model within begins the sequence
            layer = entry(layer.config["layers"][0])
            shape = layer.config.get("batch_shape") or layer.config.get("batch_input_shape")
        name = self.graph.unique(layer.name if layer.is_input else f"{layer.name}_input")
        dtype = config.get("dtype")
        if not layer.is_input or not isinstance(dtype, str):
            dtype = "int32" if isinstance(dtype, str) and dtype.startswith("int") else "float32"
        with at(f"input '{name}'"):
            self._typed(name, shape, dtype)
        return name

    def _typed(self, name: str, shape: Any, dtype: str) -> None:
        if shape is None:
            self.graph.inputs[name] = None
            return
        need(
            isinstance(shape, list) and all(d is None or (type(d) is int and d > 0) for d in shape),
            f"a shape is a list of sizes, got {shape!r}",
            FileError,
        )
        need(dtype in _DTYPES, f"dtype '{dtype}' is none of {', '.join(_DTYPES)}", FileError)
        if None in shape:
            self.graph.open[name] = tuple(shape)
        sizes = [1, *shape[1:]] if shape and shape[0] is None else shape
        self.graph.inputs[name] = None if None in sizes else TensorType.of(sizes, _DTYPES[dtype])


_DTYPES: dict[str, Any] = {
    **{name: np.dtype(name) for name in ("float32", "int32", "int64", "int8", "uint8", "int16", "uint16", "bool")},
    "float16": np.dtype("float32"),
    "bfloat16": np.dtype("float32"),
    "float64": np.dtype("float32"),
}
"""What an input takes, by the file's dtype: networks are computed in float32."""


_NONE: Weights = NoWeights()
_MASK = Ref("", -1, 0)


def _held(wrapped: dict[str, Any]) -> Entry | None:
    """The model that a wrapper holds; None where it holds a single layer."""
    config = wrapped.get("config")
    if not isinstance(config, dict) or not isinstance(config.get("layers"), list):
        return None
    return entry(wrapped)


def _class(kind: str) -> Any:
    """The built-in class of a type; None where there is none."""
    found = Registry.of("keras").find(kind)
    return found[0].cls if found and found[0].typed else None


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration whose dtype is a name, where the file has a policy that says no more than that."""
    policy = config.get("dtype")
    if not isinstance(policy, dict) or policy.get("class_name") not in ("DTypePolicy", "Policy"):
        return config
    inner = policy.get("config")
    name = inner.get("name") if isinstance(inner, dict) else None
    return {**config, "dtype": name} if isinstance(name, str) else config


def _params(layer: Entry, call: Call) -> dict[str, Any]:
    """The configuration, and the call where it is more than tensors one after the other: in it tensors stand as
    {"input": index}."""
    params: dict[str, Any] = {"config": _plain(layer.config)}
    kwargs = {key: value for key, value in call.kwargs.items() if key not in _TRAINING}
    args = call.args[0] if len(call.args) == 1 and isinstance(call.args[0], list) else call.args
    function = layer.is_operation or layer.kind.endswith("OpLambda")
    if kwargs or function or not all(isinstance(arg, Ref) for arg in args):
        count = iter(range(len(call.refs())))
        spec: dict[str, Any] = {"args": replaced(call.args, lambda _: {"input": next(count)})}
        rest = {key: call.kwargs[key] for key in sorted(call.kwargs)}
        spec["kwargs"] = {
            key: v for key, v in replaced(rest, lambda _: {"input": next(count)}).items() if key not in _TRAINING
        }
        params["call"] = spec
    return params
