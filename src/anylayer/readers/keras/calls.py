"""How a layer is called: the inbound nodes of Keras 3 (args and kwargs) and of Keras 2 (nested lists)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from anylayer.errors import FileError, need
from anylayer.layer import Registry

_DEPTH = 64
_MOST_OUTPUTS = 1 << 16
"""The limit for the outputs of a layer's call."""


class Ref(NamedTuple):
    """One output of one call of a layer."""

    layer: str
    call: int
    output: int


@dataclass(slots=True)
class Call:
    """The arguments of one call; tensors are Refs, wherever they stand."""

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)

    def refs(self) -> list[Ref]:
        """The tensors, in the order in which the layer takes them."""
        return [*tensors(self.args), *tensors(self.kwargs)]


def tensors(value: Any) -> Iterator[Ref]:
    """The Refs in nested lists and dicts; a dict's in the order of its keys' alphabet, as Keras flattens it."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from tensors(value[key])


def replaced(value: Any, function: Callable[[Ref], Any]) -> Any:
    """The nested value with each Ref replaced."""
    if isinstance(value, Ref):
        return function(value)
    if isinstance(value, (list, tuple)):
        return [replaced(item, function) for item in value]
    if isinstance(value, dict):
        return {key: replaced(value[key], function) for key in sorted(value)}
    return value


def own_kind(item: Mapping[str, Any], kind: str) -> str:
    """Return a layer's class, with its package ("my>ReLU") where it is a class of the user's with the name of one
    of Keras' own."""
    registered, module = item.get("registered_name"), str(item.get("module") or "")
    if not isinstance(registered, str) or not registered.endswith(f">{kind}") or module.split(".")[0] == "keras":
        return kind
    return registered if Registry.of("keras").find(kind) else kind


def calls_of(nodes: Any, layers: Collection[str]) -> list[Call]:
    """The calls that a layer's `inbound_nodes` list; `layers` are the names of the model's layers."""
    need(isinstance(nodes, list), f"inbound_nodes must be a list, got {type(nodes).__name__}", FileError)
    return [_new(node) if isinstance(node, dict) else _old(node, layers) for node in nodes]


def _new(node: dict[str, Any]) -> Call:
    args, kwargs = _resolved(node.get("args", [])), _resolved(node.get("kwargs", {}))
    need(isinstance(args, list) and isinstance(kwargs, dict), "inbound_nodes need args and kwargs", FileError)
    return Call(args, {key: value for key, value in kwargs.items() if not _is_nothing(value)})


def _is_nothing(value: Any) -> bool:
    """None, or a list or dict of nothing else."""
    if isinstance(value, (list, dict)) and value:
        return all(map(_is_nothing, value.values() if isinstance(value, dict) else value))
    return value is None


def _resolved(value: Any, depth: int = 0) -> Any:
    """Keras 3's objects: tensors become Refs, tuples lists, arrays nested lists; None, slices and `...` stay."""
    need(depth < _DEPTH, f"arguments are nested deeper than {_DEPTH}", FileError)
    if isinstance(value, list):
        return [_resolved(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    kind, config = value.get("class_name"), value.get("config")
    if kind == "__keras_tensor__" and isinstance(config, dict):
        return _ref(config.get("keras_history"))
    if kind == "__tuple__":
        return _resolved(value.get("items", []), depth + 1)
    if kind in ("__numpy__", "__tensor__") and isinstance(config, dict):
        return config.get("value")
    return {str(key): _resolved(item, depth + 1) for key, item in value.items()}


def _ref(history: Any) -> Ref:
    need(
        isinstance(history, list)
        and len(history) == 3
        and isinstance(history[0], str)
        and all(type(i) is int and i >= 0 for i in history[1:]),
        f"a tensor is [layer, call, output], got {_shown(history)}",
        FileError,
    )
    need(
        history[2] < _MOST_OUTPUTS,
        f"output {history[2]} of layer '{history[0]}' is read; the limit is {_MOST_OUTPUTS} outputs",
        FileError,
    )
    return Ref(*history)


def _shown(value: Any) -> str:
    """Return a value of the file for a message, shortened."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def refs_of(spec: Any) -> list[Ref]:
    """The tensors of input_layers or output_layers: one [layer, call, output], or a list or dict of them."""
    if isinstance(spec, list) and len(spec) == 3 and isinstance(spec[0], str):
        return [_ref(spec)]
    if isinstance(spec, list):
        return [ref for item in spec for ref in refs_of(item)]
    if isinstance(spec, dict):
        return [ref for key in sorted(spec) for ref in refs_of(spec[key])]
    raise FileError(f"a tensor is [layer, call, output], got {_shown(spec)}")


def _old(node: Any, layers: Collection[str]) -> Call:
    need(isinstance(node, (list, dict)), f"an inbound node must be a list, got {_shown(node)}", FileError)
    if _is_history(node):
        return Call([_constant_or_ref(node)], _options([node], layers))
    items = [item for item in node if item != []]
    need(all(_is_history(item) for item in items), f"an inbound node lists tensors, got {_shown(node)}", FileError)
    found = [_constant_or_ref(item) for item in items]
    return Call([found[0] if len(found) == 1 else found] if found else [], _options(items, layers))


def _is_history(item: Any) -> bool:
    return isinstance(item, list) and len(item) in (3, 4) and isinstance(item[0], str) and type(item[1]) is int


def _constant_or_ref(item: list[Any]) -> Any:
    return item[2] if item[0] == "_CONSTANT_VALUE" and item[1] == -1 else _ref(item[:3])


def _options(items: list[Any], layers: Collection[str]) -> dict[str, Any]:
    given = items[0][3] if items and len(items[0]) == 4 else {}
    need(isinstance(given, dict), f"a call's options must be an object, got {_shown(given)}", FileError)
    return {key: _tensors_in(value, layers) for key, value in given.items() if value is not None and key != "name"}


def _tensors_in(value: Any, layers: Collection[str], depth: int = 0) -> Any:
    """Options in which [layer, call, output] is a tensor."""
    need(depth < _DEPTH, f"arguments are nested deeper than {_DEPTH}", FileError)
    if isinstance(value, list):
        if _is_history(value) and (value[0] in layers or value[0] == "_CONSTANT_VALUE"):
            return _constant_or_ref(value)
        return [_tensors_in(item, layers, depth + 1) for item in value]
    if isinstance(value, dict):
        return {str(key): _tensors_in(item, layers, depth + 1) for key, item in value.items()}
    return value
