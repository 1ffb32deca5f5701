"""The layers that a model's JSON lists, each with its configuration and its calls.

A call is an inbound node, as Keras 3 writes it (args and kwargs) or as Keras 2 does (lists)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from anylayer.errors import FileError, at, need, shortened
from anylayer.layer import Registry
from anylayer.readers._limits import MAX_CALL_OUTPUTS, MAX_NESTING
from anylayer.readers._names import layer_place


class Ref(NamedTuple):
    """A tensor: one output of one call of a layer. Calls and outputs count from 0."""

    layer: str
    call: int
    output: int


Argument = Any
"""An argument of a call: a JSON value in which tensors are Refs, also inside lists and dicts."""


@dataclass(slots=True)
class LayerCall:
    """The arguments of one call."""

    args: list[Argument] = field(default_factory=list)
    kwargs: dict[str, Argument] = field(default_factory=dict)

    def refs(self) -> list[Ref]:
        """Return the tensors in the order in which the layer takes them."""
        return [*tensors(self.args), *tensors(self.kwargs)]


def tensors(value: Argument) -> Iterator[Ref]:
    """Yield the Refs in nested lists and dicts.

    The keys of a dict are sorted, as Keras does when it flattens it.
    """
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from tensors(value[key])


def replace_refs(value: Argument, function: Callable[[Ref], Any]) -> Any:
    """Return a nested value in which each Ref is replaced by the function's result."""
    if isinstance(value, Ref):
        return function(value)
    if isinstance(value, (list, tuple)):
        return [replace_refs(item, function) for item in value]
    if isinstance(value, dict):
        return {key: replace_refs(value[key], function) for key in sorted(value)}
    return value


def own_kind(item: Mapping[str, Any], kind: str) -> str:
    """Return a layer's class. A user's class that has the name of one of Keras' classes has its package
    ("my>ReLU").

    `item` is the layer's JSON object, and `kind` its class without package.
    """
    registered, module = item.get("registered_name"), str(item.get("module") or "")
    if not isinstance(registered, str) or not registered.endswith(f">{kind}") or module.split(".")[0] == "keras":
        return kind
    return registered if Registry.of("keras").find(kind) else kind


def calls_of(nodes: Any, layers: Collection[str]) -> list[LayerCall]:
    """Return the calls that a layer's `inbound_nodes` list. `layers` are the names of the model's layers."""
    need(isinstance(nodes, list), f"inbound_nodes must be a list, got {type(nodes).__name__}", FileError)
    return [_keras3_call(node) if isinstance(node, dict) else _keras2_call(node, layers) for node in nodes]


def _keras3_call(node: dict[str, Any]) -> LayerCall:
    args, kwargs = _resolve(node.get("args", [])), _resolve(node.get("kwargs", {}))
    need(isinstance(args, list) and isinstance(kwargs, dict), "inbound_nodes must have args and kwargs", FileError)
    return LayerCall(args, {key: value for key, value in kwargs.items() if not _is_none(value)})


def _is_none(value: Any) -> bool:
    """Return whether a value is None, or a nonempty list or dict in which all values are None."""
    if isinstance(value, (list, dict)) and value:
        return all(map(_is_none, value.values() if isinstance(value, dict) else value))
    return value is None


def _resolve(value: Any, depth: int = 0) -> Argument:
    """Return a JSON value of Keras 3 in which tensors are Refs, tuples are lists, and arrays are nested lists.

    The objects for slices and `...` stay dicts.
    """
    need(depth < MAX_NESTING, f"arguments are nested deeper than {MAX_NESTING}", FileError)
    if isinstance(value, list):
        return [_resolve(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    kind, config = value.get("class_name"), value.get("config")
    if kind == "__keras_tensor__" and isinstance(config, dict):
        return _ref(config.get("keras_history"))
    if kind == "__tuple__":
        return _resolve(value.get("items", []), depth + 1)
    if kind in ("__numpy__", "__tensor__") and isinstance(config, dict):
        return config.get("value")
    return {str(key): _resolve(item, depth + 1) for key, item in value.items()}


def _ref(history: Any) -> Ref:
    need(
        isinstance(history, list)
        and len(history) == 3
        and isinstance(history[0], str)
        and all(type(i) is int and i >= 0 for i in history[1:]),
        f"a tensor must be [layer, call, output], got {shortened(repr(history), 80)}",
        FileError,
    )
    need(
        history[2] < MAX_CALL_OUTPUTS,
        f"output {history[2]} of layer '{history[0]}' is read; the limit is {MAX_CALL_OUTPUTS} outputs",
        FileError,
    )
    return Ref(*history)


def refs_of(spec: Any) -> list[Ref]:
    """Return the tensors of input_layers or output_layers: one [layer, call, output], or a list or dict."""
    if isinstance(spec, list) and len(spec) == 3 and isinstance(spec[0], str):
        return [_ref(spec)]
    if isinstance(spec, list):
        return [ref for item in spec for ref in refs_of(item)]
    if isinstance(spec, dict):
        return [ref for key in sorted(spec) for ref in refs_of(spec[key])]
    raise FileError(f"a tensor must be [layer, call, output], got {shortened(repr(spec), 80)}")


def _keras2_call(node: Any, layers: Collection[str]) -> LayerCall:
    need(
        isinstance(node, (list, dict)),
        f"an inbound node must be a list, got {shortened(repr(node), 80)}",
        FileError,
    )
    if _is_history(node):
        return LayerCall([_constant_or_ref(node)], _options([node], layers))
    items = [item for item in node if item != []]
    rule = f"an inbound node must list tensors, got {shortened(repr(node), 80)}"
    need(all(_is_history(item) for item in items), rule, FileError)
    arguments = [_constant_or_ref(item) for item in items]
    return LayerCall(
        [arguments[0] if len(arguments) == 1 else arguments] if arguments else [], _options(items, layers)
    )


def _is_history(item: Any) -> bool:
    return isinstance(item, list) and len(item) in (3, 4) and isinstance(item[0], str) and type(item[1]) is int


def _constant_or_ref(item: list[Any]) -> Argument:
    return item[2] if item[0] == "_CONSTANT_VALUE" and item[1] == -1 else _ref(item[:3])


def _options(items: list[Any], layers: Collection[str]) -> dict[str, Any]:
    options = items[0][3] if items and len(items[0]) == 4 else {}
    need(
        isinstance(options, dict),
        f"a call's options must be an object, got {shortened(repr(options), 80)}",
        FileError,
    )
    return {
        key: _tensors_in(value, layers) for key, value in options.items() if value is not None and key != "name"
    }


def _tensors_in(value: Any, layers: Collection[str], depth: int = 0) -> Argument:
    """Return an argument of Keras 2 in which each [layer, call, output] is a Ref."""
    need(depth < MAX_NESTING, f"arguments are nested deeper than {MAX_NESTING}", FileError)
    if isinstance(value, list):
        if _is_history(value) and (value[0] in layers or value[0] == "_CONSTANT_VALUE"):
            return _constant_or_ref(value)
        return [_tensors_in(item, layers, depth + 1) for item in value]
    if isinstance(value, dict):
        return {str(key): _tensors_in(item, layers, depth + 1) for key, item in value.items()}
    return value


Json = dict[str, Any]
"""A JSON object."""


@dataclass(slots=True)
class LayerConfig:
    """A layer of a model: its configuration, and its calls. `kind` is its class, `module` the class's module."""

    name: str
    kind: str
    module: str
    config: Json
    calls: list[LayerCall]
    keras3: bool = False
    """Return whether its calls are written in Keras 3's form."""

    @property
    def is_operation(self) -> bool:
        """Return whether it is a call of a function of keras.ops instead of a layer object.

        Nearly every layer has `trainable`. Calls of the others (SpatialDropout2D) have `training`.
        """
        untyped = self.keras3 and "trainable" not in self.config and not self.is_input and not self.is_model
        untyped = untyped and not any("training" in call.kwargs for call in self.calls)
        return self.module.startswith("keras.src.ops") or (not self.module and untyped)

    @property
    def is_input(self) -> bool:
        """Return whether it is an input of a model."""
        return ("batch_shape" in self.config or "batch_input_shape" in self.config) and "sparse" in self.config

    @property
    def is_model(self) -> bool:
        """Return whether it is a model with layers of its own."""
        return isinstance(self.config.get("layers"), list)

    @property
    def place(self) -> str:
        """Return the place for an error message."""
        return layer_place(self.name, self.kind)


def layer_config(item: Any, layers: Sequence[str] = ()) -> LayerConfig:
    """Return a layer from an item of a model's list. `layers` are the names of all layers of the model.

    Raise FileError for an item that does not describe a layer.
    """
    need(isinstance(item, dict), f"a layer must be an object, got {item!r}", FileError)
    kind, config = item.get("class_name"), item.get("config")
    if not isinstance(kind, str) or not isinstance(config, dict):
        raise FileError("a layer must have class_name and config")
    name, kind = layer_name(item), own_kind(item, kind)
    need(name, f"a layer ({kind}) has no name", FileError)
    module, nodes = item.get("module"), item.get("inbound_nodes", [])
    with at(layer_place(name, kind)):
        calls = calls_of(nodes, layers)
    keras3 = bool(nodes) and isinstance(nodes[0], dict)
    return LayerConfig(name, kind, module if isinstance(module, str) else "", config, calls, keras3)


def layer_name(item: Json) -> str:
    """Return the name of a layer in a model's list, or "" if it has none."""
    config = item.get("config")
    name = item.get("name") or (config.get("name") if isinstance(config, dict) else None)
    return name if isinstance(name, str) else ""


def wrapped_model(layer: LayerConfig) -> LayerConfig | None:
    """Return the model that a wrapper applies, or None if the layer is not a wrapper or wraps a single layer."""
    wrapped = layer.config.get("layer")
    inner = wrapped.get("config") if isinstance(wrapped, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("layers"), list):
        return None
    return layer_config(wrapped)


def with_dtype_name(config: Json) -> Json:
    """Return a configuration in which the dtype is a name, if the file has a dtype policy that is only a name."""
    policy = config.get("dtype")
    if not isinstance(policy, dict) or policy.get("class_name") not in ("DTypePolicy", "Policy"):
        return config
    inner = policy.get("config")
    name = inner.get("name") if isinstance(inner, dict) else None
    return {**config, "dtype": name} if isinstance(name, str) else config
