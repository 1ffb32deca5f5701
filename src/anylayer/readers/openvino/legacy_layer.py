"""A layer of an old IR: its attributes and weights, under all the names that the versions have for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import FileError, LayerError, need
from anylayer.network import Array, Flag, Node, Shape
from anylayer.readers.openvino.attributes import typed
from anylayer.readers.openvino.layers import Drawn, size
from anylayer.readers.openvino.markup import Element
from anylayer.readers.openvino.weights import Weights

_NO_DATA = frozenset({"input", "output", "blobs", "weights", "biases", "port", "body", "port_map", "back_edges"})
_QUIET = frozenset({"originalLayersNames", "PrimitivesPriority", "id", "execution_order"})
"""Attributes that no value of the network depends on, in layers of any type."""


@dataclass(slots=True)
class Legacy:
    """A layer with what it takes to spell it as Caffe does. `nodes` are what it has become so far."""

    drawn: Drawn
    attributes: dict[str, str]
    blobs: dict[str, Array]
    inputs: list[str]
    nodes: list[Node] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    @property
    def type(self) -> str:
        return self.drawn.type

    @property
    def outputs(self) -> list[str]:
        return [port.value for port in self.drawn.outputs]

    def shape(self, i: int = 0) -> Shape:
        """The shape of input i, as the file says it."""
        need(i < len(self.drawn.inputs), f"takes at least {i + 1} inputs, got {len(self.drawn.inputs)}")
        return _closed(self.drawn.inputs[i].shape)

    def out_shape(self, i: int = 0) -> Shape:
        """The shape of output i, as the file says it."""
        need(i < len(self.drawn.outputs), f"gives at least {i + 1} outputs, got {len(self.drawn.outputs)}")
        return _closed(self.drawn.outputs[i].shape)

    def value(self, *names: str, default: Any = None) -> Any:
        """The typed value of the first of these attributes that the file writes; all of them count as read."""
        self.taken.update(names)
        found = next((self.attributes[n] for n in names if n in self.attributes), None)
        return default if found is None else typed(found)

    def word(self, *names: str, default: str = "") -> str:
        """A word, without what qualifies it: "MAX" of "caffe.PoolingParameter.MAX"."""
        return str(self.value(*names, default=default)).rpartition(".")[2]

    def number(self, *names: str, default: float | None = None) -> float:
        """A number."""
        value = self.value(*names, default=default)
        need(value is not None, f"attribute '{names[0]}' is missing")
        need(isinstance(value, (int, float)), f"attribute '{names[0]}' must be a number, got {value!r}")
        return float(value)

    def whole(self, *names: str, default: int | None = None) -> int:
        """A whole number."""
        value = self.number(*names, default=default)
        need(math.isfinite(value) and value == int(value), f"'{names[0]}' must be a whole number, got {value:g}")
        return int(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """A flag: 0 or 1, true or false."""
        value = self.value(*names, default=default)
        need(value in (0, 1), f"attribute '{names[0]}' must be true or false, got {value!r}")
        return bool(value)

    def numbers(self, *names: str) -> list[int]:
        """A list of whole numbers; empty where the file has none."""
        value = self.value(*names, default=[])
        values = value if isinstance(value, list) else [] if value == "" else [value]
        need(all(type(v) is int for v in values), f"attribute '{names[0]}' must be whole numbers, got {value!r}")
        return list(values)

    def along(self, plural: str, stem: str, count: int, default: int) -> list[int]:
        """One number a spatial axis: from `plural` ("y,x"), or from stem-y and stem-x."""
        values = self.numbers(plural)
        high = self.whole(f"{stem}-y", f"{stem}_h", f"{stem}_y", default=-1)
        wide = self.whole(f"{stem}-x", f"{stem}_w", f"{stem}_x", default=-1)
        if not values and (high, wide) != (-1, -1):
            values = [default if v == -1 else v for v in (high, wide)][2 - count :]
        values = values or [default] * count
        need(len(values) == count, f"'{plural}' must have {count} numbers, one a spatial axis, got {values}")
        return values

    def weights(self, shape: Shape, name: str = "weights", optional: bool = False) -> Array | None:
        """A blob in a shape; None where the network comes without weights, or where it may be left out."""
        blob = self.blobs.get(name)
        if blob is None:
            need(optional or not self.blobs, f"its {name} are not in the file")
            return None
        count = math.prod(shape)
        need(blob.size == count, f"its {name} are {blob.size} numbers, {count} are needed: {shape}")
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
        """Append a node of Caffe's and return its outputs; `name` makes it one of several ("conv1/name")."""
        own = self.outputs if outputs is None else list(outputs)
        given = [b for b in blobs if b is not None]
        node = Node(
            name=f"{self.drawn.name}/{name}" if name else self.drawn.name,
            type=type_,
            inputs=list(self.inputs if inputs is None else inputs),
            outputs=own,
            params=params or {},
            blobs=given,
            place=self.drawn.place,
            layout="NCHW",
        )
        self.nodes.append(node)
        return own

    def between(self, name: str) -> str:
        """The name of a value between two of its nodes."""
        return f"{self.drawn.name}/{name}"

    def check_taken(self) -> None:
        """Refuse an attribute that nothing has read."""
        left = sorted(set(self.attributes) - self.taken - _QUIET)
        need(not left, f"attribute '{left[0] if left else ''}' is not known for layers of type {self.type}")


def _closed(shape: Sequence[int | None]) -> Shape:
    need(all(d is not None for d in shape), "its ports must have sizes")
    return tuple(int(d or 0) for d in shape)


def attributes_of(element: Element) -> dict[str, str]:
    """A layer's attributes: those of <data>, or of the element that an old version has in its place."""
    found: dict[str, str] = {}
    for child in element.children:
        if child.tag not in _NO_DATA:
            found.update(child.attributes)
    return found


def blobs_of(layer: Drawn, weights: Weights, default: str) -> dict[str, Array]:
    """A layer's blobs by name, flat, float32; none where there is no weights file."""
    inside = layer.element.child("blobs")
    parts = [*(inside.children if inside is not None else ()), *layer.element.all("weights")]
    parts += layer.element.all("biases")
    found: dict[str, Array] = {}
    precision = layer.precision or default
    if layer.outputs and layer.outputs[0].precision and not layer.inputs:
        precision = layer.outputs[0].precision
    for part in parts:
        offset, length = (
            size(part.attributes.get(n, "0"), f"'{n}' of its {part.tag}") for n in ("offset", "size")
        )
        need(
            offset is not None and length is not None,
            f"'offset' and 'size' of its {part.tag} must be whole numbers",
            FileError,
        )
        if not length or not weights.there:
            continue
        kind = part.attributes.get("precision") or precision or "FP32"
        if kind.upper() in ("I8", "U8", "BIN") and layer.inputs:
            raise LayerError(f"its {part.tag} are of type {kind}: networks of quantised weights are not supported")
        values = weights.array(offset or 0, length, kind)
        found[part.tag] = values if values.dtype == np.float32 else values.astype(np.float32)
    return found


def plain(value: Any) -> Any:
    """A value as Caffe's fields take it: flags as 0 and 1."""
    return int(value) if isinstance(value, Flag) else value
