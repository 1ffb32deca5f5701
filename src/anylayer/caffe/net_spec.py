"""NetSpec: networks defined in Python, as in pycaffe (BVLC/caffe python/caffe/net_spec.py).

Names and order are pycaffe's. A layer has the name of the attribute to which its first top was assigned, or that
of its type with a number. Layers are in the order in which the assigned tops depend on them. A layer takes the
fields that its class declares. A layer of an unknown type takes any field, in a message named after the type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from anylayer.caffe.net_parameter import LayerParameter, NetParameter
from anylayer.errors import InputError, at, nearest, need
from anylayer.layer import Enum, Field, Message, Registry
from anylayer.network import Word
from anylayer.writers.caffe.messages import LAYER_FIELDS, MESSAGE_CLASSES, title, type_of
from anylayer.writers.caffe.schema import own_message


class NoTopError(InputError, TypeError):
    """An input of a layer is not a top."""


class Top:
    """Output number `n` of a layer."""

    def __init__(self, fn: Function, n: int) -> None:
        self.fn, self.n = fn, n

    def to_proto(self) -> NetParameter:
        """Return the network of all layers that this top depends on."""
        return to_proto(self)


class Function:
    """A layer with its inputs and parameters. `tops` are its outputs."""

    def __init__(self, type_name: str, inputs: tuple[Any, ...], params: dict[str, Any]) -> None:
        for i, top in enumerate(inputs):
            need(isinstance(top, Top), f"{type_name} input {i} is not a Top (type is {type(top)})", NoTopError)
        self.type_name, self.inputs = type_name, inputs
        self.ntop = int(params.pop("ntop", 1))
        self.in_place = bool(params.pop("in_place", False))
        self.params = params
        self.tops = tuple(Top(self, n) for n in range(self.ntop))

    def to_proto(self) -> NetParameter:
        """Return the network of this layer and all layers that it depends on."""
        return to_proto(self)


class _Naming:
    """Name layers and tops, and order layers. `done` maps the layers that are finished to their messages."""

    def __init__(self, names: Mapping[Any, str]) -> None:
        self.names: dict[Any, str] = dict(names)
        self.counts: Counter[str] = Counter()
        self.done: dict[Function, LayerParameter] = {}

    def add(self, item: Top | Function) -> None:
        """Add the layer of a top after those that it depends on, without recursion, for deep networks."""
        first = item.fn if isinstance(item, Top) else item
        stack = [(first, iter([top.fn for top in first.inputs]))]
        entered = {first}
        while stack:
            fn, rest = stack[-1]
            if fn in self.done:
                stack.pop()
                continue
            following = next((f for f in rest if f not in self.done), None)
            if following is None:
                self.done[fn] = self._layer(fn)
                entered.discard(fn)
                stack.pop()
            else:
                need(following not in entered, f"layer {following.type_name} reads its own output", InputError)
                entered.add(following)
                stack.append((following, iter([top.fn for top in following.inputs])))

    def _layer(self, fn: Function) -> LayerParameter:
        bottoms = [self.done[top.fn].top[top.n] for top in fn.inputs]
        tops = list(bottoms) if fn.in_place else [self._name(top, fn.type_name) for top in fn.tops]
        if fn not in self.names:
            self.names[fn] = self._name(fn.tops[0], fn.type_name) if fn.tops else self._auto(fn.type_name)
        layer = LayerParameter(self.names[fn], fn.type_name, bottoms, tops)
        with at(f"layer '{layer.name}' ({fn.type_name})"):
            for name, value in fn.params.items():
                _assign(layer, name, value)
        return layer

    def _name(self, top: Top, type_name: str) -> str:
        if top not in self.names:
            self.names[top] = self._auto(type_name)
        return self.names[top]

    def _auto(self, type_name: str) -> str:
        self.counts[type_name] += 1
        return f"{type_name}{self.counts[type_name]}"


def to_proto(*tops: Top | Function, names: Mapping[Top | Function, str] = MappingProxyType({})) -> NetParameter:
    """Return the network of all layers that these tops depend on, named by `names`, or after their types."""
    naming = _Naming(names)
    for top in tops:
        naming.add(top)
    return NetParameter(layer=list(naming.done.values()))


class NetSpec:
    """A network under construction: each assigned attribute is a named top.

    Raises InputError and LayerError where Caffe would refuse a layer: unknown fields, values of another type.
    """

    tops: dict[str, Any]

    def __init__(self) -> None:
        object.__setattr__(self, "tops", {})

    def __setattr__(self, name: str, value: Any) -> None:
        self.tops[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.tops:
            raise AttributeError(f"the NetSpec has no top '{name}'{nearest(name, self.tops)}")
        return self.tops[name]

    __setitem__ = __setattr__

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __delitem__(self, name: str) -> None:
        del self.tops[name]

    def __contains__(self, name: str) -> bool:
        return name in self.tops

    def keys(self) -> list[str]:
        """Return the names of the tops."""
        return list(self.tops)

    def vals(self) -> list[Any]:
        """Return the tops."""
        return list(self.tops.values())

    def update(self, other: Mapping[str, Any] | NetSpec) -> None:
        """Add tops by name, as dict.update does."""
        self.tops.update(other.tops if isinstance(other, NetSpec) else other)

    def to_proto(self) -> NetParameter:
        """Return the network of all layers that the named tops depend on."""
        for name, top in self.tops.items():
            need(
                isinstance(top, (Top, Function)),
                f"'{name}' must be a top, got {type(top).__name__}. A layer with several tops returns a tuple: "
                "n.data, n.label = L.Data(..., ntop=2)",
                InputError,
            )
        return to_proto(*self.tops.values(), names={top: name for name, top in self.tops.items()})


class Layers:
    """Functions that make layers: the attribute `Convolution` makes a layer of type Convolution."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def make(*inputs: Any, **params: Any) -> Any:
            fn = Function(name, inputs, params)
            return fn if fn.ntop == 0 else fn.tops[0] if fn.ntop == 1 else fn.tops

        return make


class Parameters:
    """Values of enums: `params.Pooling.MAX` is the number of MAX in the enums of PoolingParameter.

    For an unknown message it is the word itself.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Words(name, _enums(type_of(name)))


class _Words:
    def __init__(self, name: str, words: dict[str, int] | None) -> None:
        self._name, self._known = name, words

    def __getattr__(self, word: str) -> Any:
        if word.startswith("__"):
            raise AttributeError(word)
        if self._known is None:
            return Word(word)
        if word not in self._known:
            raise AttributeError(f"{type_of(self._name)} has no word '{word}'{nearest(word, self._known)}")
        return self._known[word]


def _enums(type_name: str) -> dict[str, int] | None:
    """Return the values of all enums of a parameter message, or None where nothing declares the message."""
    classes = [d.layer_class for d in Registry.of("caffe").definitions() if d.typed]
    layer_classes = [(c.message, c) for c in classes if c.message]
    declared: list[tuple[str, type[Message]]] = [*layer_classes, *MESSAGE_CLASSES.items()]
    enums = [_words(cls) for message, cls in declared if title(message) == type_name]
    kinds = [f.kind for _, cls in layer_classes for f in cls.fields.values()]
    enums += [_words(kind) for kind in kinds if isinstance(kind, type) and kind.__name__ == type_name]
    return {word: number for words in reversed(enums) for word, number in words.items()} if enums else None


def _words(cls: type[Message]) -> dict[str, int]:
    kinds = [f.kind for f in cls.fields.values() if isinstance(f.kind, Enum)]
    return {word: number for kind in kinds for word, number in kind.numbers.items()}


def _assign(layer: LayerParameter, name: str, value: Any) -> None:
    """Set a field of a layer: in its own parameter message if that declares it, otherwise in the layer."""
    if name in ("name", "type", "bottom", "top"):
        classes = [] if name.endswith("param") else _declaring_classes(layer.type, own_message(layer.type))
        if not any(name in cls.fields for cls in classes):
            setattr(layer, name, value)
            return
    if name.endswith("param"):
        layer.fields[name] = (
            _convert(value, LAYER_FIELDS[name]) if name in LAYER_FIELDS else _message(layer.type, name, value)
        )
        return
    message = own_message(layer.type)
    declared = _declaring_classes(layer.type, message)
    declared_field = next((cls.fields[name] for cls in declared if name in cls.fields), None)
    if declared_field is None and name in LAYER_FIELDS:
        layer.fields[name] = _convert(value, LAYER_FIELDS[name])
        return
    fields = dict.fromkeys(n for cls in declared for n in cls.fields)
    need(
        declared_field is not None or not (declared or Registry.of("caffe").find(layer.type)),
        f"{message} has no field '{name}'{nearest(name, fields) or '; it has: ' + (', '.join(fields) or 'none')}",
        InputError,
    )
    with at(f"parameter '{name}'"):
        typed = _as_python(value) if declared_field is None else _convert(value, declared_field)
    layer.fields.setdefault(message, {})[name] = typed


def _declaring_classes(type_name: str, message: str) -> list[type[Message]]:
    """Return the classes that declare a parameter message for a layer type."""
    classes = [d.layer_class for d in Registry.of("caffe").find(type_name) if d.typed]
    if message in MESSAGE_CLASSES:
        return [MESSAGE_CLASSES[message]]
    return [cls for cls in classes if cls.message == message]


def _message(type_name: str, name: str, value: Any) -> Any:
    """Return a parameter message that is given as a dict, with values of the declared types."""
    declared = _declaring_classes(type_name, name)
    if not declared:
        every = [d.layer_class for d in Registry.of("caffe").definitions() if d.typed]
        declared = [cls for cls in every if cls.message == name]
    if not declared or not isinstance(value, Mapping):
        return _as_python(value)
    fitting = next((c for c in declared if set(value) <= set(c.fields)), declared[0])
    return _convert(value, Field(0, fitting, name=name))


def _convert(value: Any, declared: Field) -> Any:
    """Return a Python value as a value of a declared field. A repeated field takes one value as well as a list."""
    value = _as_python(value)
    if declared.repeated:
        one = replace(declared, repeated=False)
        return [_convert(v, one) for v in (value if isinstance(value, list) else [value])]
    kind = declared.kind
    if not (isinstance(kind, type) and issubclass(kind, Message)):
        return declared.convert(value)
    need(isinstance(value, Mapping), f"must be a dict, got {value!r}", InputError)
    converted = {}
    for name, inner in value.items():
        need(
            name in kind.fields,
            f"{title(declared.name) if declared.name.endswith('_param') else kind.__name__} has no field "
            f"'{name}'{nearest(name, kind.fields) or '; it has: ' + ', '.join(kind.fields)}",
            InputError,
        )
        with at(f"parameter '{name}'"):
            converted[name] = _convert(inner, kind.fields[name])
    return converted


def _as_python(value: Any) -> Any:
    """Return a value with NumPy's scalars and arrays, and tuples, replaced by Python's numbers and lists."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(k): _as_python(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_python(v) for v in value]
    return value
