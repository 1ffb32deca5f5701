"""A layer of IR v2 to v7: its attributes and weights. The versions name the same attribute differently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import FileError, LayerError, given, need, plural
from anylayer.libraries.markup import Element
from anylayer.network import Array, Flag, Node, Shape
from anylayer.readers._values import parse_value
from anylayer.readers.openvino.layers import IrLayer, Port, size
from anylayer.readers.openvino.weights import BinFile

_NO_DATA = frozenset({"input", "output", "blobs", "weights", "biases", "port", "body", "port_map", "back_edges"})
"""Children of <layer> that hold no attributes of the layer."""
_IRRELEVANT = frozenset({"originalLayersNames", "PrimitivesPriority", "id", "execution_order"})
"""Attributes of any layer that do not affect the network's values."""
_QUANTIZED = ("I8", "U8", "BIN")
"""Element types of quantized weights."""


@dataclass(slots=True)
class LegacyLayer:
    """A layer that is being translated to Caffe's layers.

    `attributes` are those of the file, and `read` the names of those that the translation has read. `blobs` are
    the weights by name ("weights", "biases"). `nodes` are the nodes that the layer has been translated to so far.
    """

    layer: IrLayer
    attributes: dict[str, str]
    blobs: dict[str, Array]
    inputs: list[str]
    nodes: list[Node] = field(default_factory=list)
    read: set[str] = field(default_factory=set)

    @property
    def type(self) -> str:
        return self.layer.type

    @property
    def outputs(self) -> list[str]:
        return [port.value for port in self.layer.outputs]

    def shape(self, i: int = 0) -> Shape:
        """Return the shape of input `i`, as the file states it."""
        return _port_shape(self.layer.inputs, i, "input")

    def out_shape(self, i: int = 0) -> Shape:
        """Return the shape of output `i`, as the file states it."""
        return _port_shape(self.layer.outputs, i, "output")

    def value(self, *names: str, default: Any = None) -> Any:
        """Return the value of the first of these attributes that the file has. All of them are marked as read."""
        self.read.update(names)
        text = next((self.attributes[n] for n in names if n in self.attributes), None)
        return default if text is None else parse_value(text)

    def word(self, *names: str, default: str = "") -> str:
        """Return a word without its qualifier: "MAX" for "caffe.PoolingParameter.MAX"."""
        return str(self.value(*names, default=default)).rpartition(".")[2]

    def number(self, *names: str, default: float | None = None) -> float:
        """Return a number. Raise LayerError for another value, and for a missing attribute without a default."""
        value = given(self.value(*names, default=default), f"attribute '{names[0]}' is missing")
        need(isinstance(value, (int, float)), f"attribute '{names[0]}' must be a number, got {value!r}")
        return float(value)

    def integer(self, *names: str, default: int | None = None) -> int:
        """Return an integer. Raise LayerError for another value, and for a missing attribute without a default."""
        value = self.number(*names, default=default)
        need(math.isfinite(value) and value == int(value), f"'{names[0]}' must be an integer, got {value:g}")
        return int(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """Return a flag, which the file writes as 0, 1, true or false."""
        value = self.value(*names, default=default)
        need(value in (0, 1), f"attribute '{names[0]}' must be true or false, got {value!r}")
        return bool(value)

    def integers(self, *names: str) -> list[int]:
        """Return a list of integers, which is empty if the attribute is missing."""
        value = self.value(*names, default=[])
        values = value if isinstance(value, list) else [] if value == "" else [value]
        need(all(type(v) is int for v in values), f"attribute '{names[0]}' must be integers, got {value!r}")
        return list(values)

    def per_axis(self, plural: str, stem: str, count: int, default: int) -> list[int]:
        """Return `count` integers, one per spatial axis, from `plural` ("y,x") or from stem-y and stem-x."""
        values = self.integers(plural)
        high = self.integer(f"{stem}-y", f"{stem}_h", f"{stem}_y", default=-1)
        wide = self.integer(f"{stem}-x", f"{stem}_w", f"{stem}_x", default=-1)
        if not values and (high, wide) != (-1, -1):
            values = [default if v == -1 else v for v in (high, wide)][2 - count :]
        values = values or [default] * count
        need(len(values) == count, f"'{plural}' must have {count} numbers, one per spatial axis, got {values}")
        return values

    def weights(self, shape: Shape, name: str = "weights", optional: bool = False) -> Array | None:
        """Return a blob in the given shape, or None if it is missing.

        Raise LayerError if its size does not match, or if it is missing although the layer has other blobs and it
        is not `optional`.
        """
        blob = self.blobs.get(name)
        if blob is None:
            need(optional or not self.blobs, f"its {name} are not in the file")
            return None
        count = math.prod(shape)
        need(blob.size == count, f"its {name} have {plural(blob.size, 'value')}, but shape {shape} needs {count}")
        return blob.reshape(shape)

    def add(
        self,
        type_: str,
        params: dict[str, Any] | None = None,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        blobs: Sequence[Array | None] = (),
        name: str = "",
    ) -> list[str]:
        """Append a Caffe node and return its outputs. By default it has the layer's inputs and outputs.

        `name` distinguishes one of several nodes of a layer; the node is named "conv1/name".
        """
        tops = self.outputs if outputs is None else list(outputs)
        present = [b for b in blobs if b is not None]
        node = Node(
            name=f"{self.layer.name}/{name}" if name else self.layer.name,
            type=type_,
            inputs=list(self.inputs if inputs is None else inputs),
            outputs=tops,
            params=params or {},
            blobs=present,
            place=self.layer.place,
            layout="NCHW",
        )
        self.nodes.append(node)
        return tops

    def inner_name(self, name: str) -> str:
        """Return the name of a value between two nodes of the layer."""
        return f"{self.layer.name}/{name}"

    def refuse_unread(self) -> None:
        """Raise LayerError for an attribute that the translation has not read."""
        left = sorted(set(self.attributes) - self.read - _IRRELEVANT)
        need(not left, f"attribute '{left[0] if left else ''}' is unknown for layers of type {self.type}")


def _port_shape(ports: Sequence[Port], i: int, side: str) -> Shape:
    need(i < len(ports), f"it has {plural(len(ports), side)}, expected at least {i + 1}")
    static = tuple(d for d in ports[i].shape if d is not None)
    need(len(static) == len(ports[i].shape), "its ports must have static shapes")
    return static


def attributes_of(element: Element) -> dict[str, str]:
    """Return a layer's attributes: those of <data>, or of the element that an older version has instead."""
    attributes: dict[str, str] = {}
    for child in element.children:
        if child.tag not in _NO_DATA:
            attributes.update(child.attributes)
    return attributes


def blobs_of(layer: IrLayer, weights: BinFile, default: str) -> dict[str, Array]:
    """Return a layer's blobs by name, flat and as float32. There are none without a weights file.

    `default` is the network's precision. Raise LayerError for quantized weights.
    """
    inside = layer.element.child("blobs")
    parts = [*(inside.children if inside is not None else ()), *layer.element.all("weights")]
    parts += layer.element.all("biases")
    arrays: dict[str, Array] = {}
    precision = layer.precision or default
    if layer.outputs and layer.outputs[0].precision and not layer.inputs:
        precision = layer.outputs[0].precision
    for part in parts:
        offset, length = (
            size(part.attributes.get(n, "0"), f"'{n}' of its {part.tag}") for n in ("offset", "size")
        )
        if offset is None or length is None:
            raise FileError(f"'offset' and 'size' of its {part.tag} must be integers")
        if not length or not weights.exists:
            continue
        kind = part.attributes.get("precision") or precision or "FP32"
        if kind.upper() in _QUANTIZED and layer.inputs:
            raise LayerError(f"its {part.tag} are of type {kind}: quantized weights are not supported")
        values = weights.array(offset, length, kind)
        arrays[part.tag] = values if values.dtype == np.float32 else values.astype(np.float32)
    return arrays


def flag_as_int(value: Any) -> Any:
    """Return a value as Caffe's fields take it: a flag becomes 0 or 1."""
    return int(value) if isinstance(value, Flag) else value
