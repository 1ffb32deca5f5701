"""Append layers to a CaffeNet, each with a free name and with blobs of known shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from anylayer.errors import LayerError, some, wording
from anylayer.network import Array, Shape
from anylayer.writers.caffe.dialects import dialect_names, dialect_of
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet, unused_name
from anylayer.writers.caffe.views import BlobView

T = TypeVar("T")


class Emitter:
    """Appends layers to `net` and tracks its blobs.

    `scope` is the name of the source's node that is being written; layers are named after it. `places` maps a
    scope to the place that leads an error message. `layers` maps a blob to the layer that produces it, `shapes` to
    its shape. `layer_names` and `blob_names` are the names in use. `custom_types` are layer types that the target
    defines itself.
    """

    def __init__(self, net: CaffeNet, places: Mapping[str, str]) -> None:
        self.net, self.places = net, places
        self.dialect = net.dialect
        self.scope = ""
        self.layers: dict[str, CaffeLayer] = {}
        self.shapes: dict[str, Shape] = {}
        self.custom_types: set[str] = set()
        self.layer_names: set[str] = {layer.name for layer in net.layers}
        self.blob_names: set[str] = {t for x in net.layers for t in x.tops} | set(net.inputs)
        self._use_counts: dict[str, int] = {}

    def refusal(self, what: str, type_: str = "") -> LayerError:
        """Return the error for something that the dialect cannot express: "Caffe has <what>".

        It names the dialects that have layers of a type, if the type is given.
        """
        name = f" (dialect '{self.dialect.name}')" if self.dialect.name else ""
        having = [other for other in dialect_names() if dialect_of(other).has(type_)] if type_ else []
        another = f"name a dialect that has it ({some(having, 5)}), " if having else ""
        return LayerError(
            f"Caffe{name} has {what}. Keep the layer as one of the target's own "
            f"({wording('keep=[...]', '--keep TYPE')}), {another}or write ONNX"
        )

    def need(self, condition: object, what: str) -> None:
        """Raise LayerError ("Caffe has <what>") unless the condition holds."""
        if not condition:
            raise self.refusal(what)

    def given(self, value: T | None, what: str) -> T:
        """Return `value`. Raise LayerError ("Caffe has <what>") where it is None."""
        if value is None:
            raise self.refusal(what)
        return value

    def add(
        self,
        type_: str,
        bottoms: Sequence[BlobView],
        shape: Sequence[int],
        params: Mapping[str, Any] | None = None,
        blobs: Sequence[Array] = (),
        *,
        suffix: str = "",
    ) -> BlobView:
        """Append a layer with one top of this shape and return the top."""
        return self.add_many(type_, bottoms, [shape], params, blobs, suffix=suffix)[0]

    def add_many(
        self,
        type_: str,
        bottoms: Sequence[BlobView],
        shapes: Sequence[Sequence[int]],
        params: Mapping[str, Any] | None = None,
        blobs: Sequence[Array] = (),
        *,
        suffix: str = "",
    ) -> list[BlobView]:
        """Append a layer with one top for each shape and return the tops.

        `params` are its parameter messages by name; empty ones are left out. `blobs` are its weights. The layer is
        called like the scope, or scope/suffix.
        """
        if not self.dialect.has(type_) and type_ not in self.custom_types:
            raise self.refusal(f"no layer {type_}", type_)
        sources = [self.bottom(b) for b in bottoms]
        self.count_uses(sources)
        name = self._free_layer_name(suffix, type_)
        wanted = [name] if len(shapes) == 1 else [f"{name}/{i}" for i in range(len(shapes))]
        tops = [unused_name(top, self.blob_names) for top in wanted]
        given = {k: v for k, v in (params or {}).items() if v}
        layer = CaffeLayer(name, type_, sources, tops, given, [np.asarray(b) for b in blobs])
        layer.place = self.places.get(self.scope, "")
        self.net.layers.append(layer)
        self.layers.update(dict.fromkeys(tops, layer))
        sizes = [tuple(int(n) for n in s) for s in shapes]
        self.shapes.update(zip(tops, sizes))
        return [BlobView(top, s) for top, s in zip(tops, sizes)]

    def bottom(self, view: BlobView) -> str:
        """Return the name of the blob that a layer reads for a view. The view must have no steps."""
        return view.name

    def count_uses(self, blobs: Sequence[str]) -> None:
        """Count one more layer that reads each of these blobs."""
        for blob in blobs:
            self._use_counts[blob] = self._use_counts.get(blob, 0) + 1

    def use_count(self, blob: str) -> int:
        """Return how many layers read a blob so far."""
        return self._use_counts.get(blob, 0)

    def producer(self, view: BlobView, *types: str) -> CaffeLayer | None:
        """Return the layer that produces a view without steps, if it has one of these types."""
        layer = None if view.steps else self.layers.get(view.name)
        return layer if layer is not None and layer.type in types else None

    @contextmanager
    def naming_scope(self, scope: str) -> Iterator[None]:
        """Name layers after another scope inside the `with` block."""
        before, self.scope = self.scope, scope
        yield
        self.scope = before

    def _free_layer_name(self, suffix: str, type_: str) -> str:
        scope = self.scope or type_.lower()
        if not suffix and scope not in self.layer_names:
            return unused_name(scope, self.layer_names)
        tail = suffix if suffix.startswith("_") else f"/{suffix or type_.lower()}"
        return unused_name(scope + tail, self.layer_names)
