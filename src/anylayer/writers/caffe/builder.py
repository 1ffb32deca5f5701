"""Turn the operators of a graph into Caffe layers, one operator after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from anylayer.errors import LayerError, at, need, some, wording
from anylayer.graph import Graph, Op, Value
from anylayer.graph.operators import REARRANGES
from anylayer.network import Array, Shape
from anylayer.source import unused_name
from anylayer.writers._target import Consumers
from anylayer.writers.caffe.dialects import dialect_names, dialect_of
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet
from anylayer.writers.caffe.materialize import materialize
from anylayer.writers.caffe.views import AxisProduct, BlobView

T = TypeVar("T")
CaffeLowering = Callable[["CaffeBuilder", Op], BlobView | None]
"""Adds the layers of one operator and returns the view of its output, or sets the views of its outputs."""

_MAX_CONSTANT_VALUES = 1 << 26
"""The largest number of elements to which a constant is expanded."""


def preserves_values(op: Op) -> bool:
    """Return whether an operator keeps the value of each element of its first input."""
    return op in REARRANGES or op.op in ("Cast", "Dropout")


class CaffeBuilder:
    """Adds layers for operators to `net`, each with a free name and with blobs of known shape.

    `scope` is the name of the source's node that is being written; layers are named after it. `places` maps a
    scope to the place that leads an error message. `layers` maps a blob to the layer that produces it, `shapes` to
    its shape. `layer_names` and `blob_names` are the names in use. `custom_types` are layer types that the target
    defines itself.

    `lowerings` maps an ONNX operator to the function that adds its layers; "" stands for operators outside ONNX's
    domain. With `fold`, batch normalisation is folded into the weights of the layer before it. With `blog_compat`,
    its epsilon is added to the stored variance, and Caffe adds its own epsilon once more. `views` maps a value to
    its blob and deferred steps. `parts` are operators that are terms of a sum, which is one layer, once they are
    known. `mergeable` are blobs into whose producer the bias that is being added may be folded.
    """

    def __init__(
        self,
        net: CaffeNet,
        lowerings: Mapping[str, CaffeLowering],
        places: Mapping[str, str],
        *,
        fold: bool = False,
        blog_compat: bool = False,
    ) -> None:
        self.net, self.places = net, places
        self.dialect = net.dialect
        self.scope = ""
        self.layers: dict[str, CaffeLayer] = {}
        self.shapes: dict[str, Shape] = {}
        self.custom_types: set[str] = set()
        self.layer_names: set[str] = {layer.name for layer in net.layers}
        self.blob_names: set[str] = {t for x in net.layers for t in x.tops} | set(net.inputs)
        self._use_counts: dict[str, int] = {}
        self.lowerings, self.fold, self.blog_compat = lowerings, fold, blog_compat
        self.views: dict[Value, BlobView] = {}
        self.producers: dict[Value, Op] = {}
        self.consumers = Consumers((), ())
        self.parts: set[Op] | None = None
        self.mergeable: set[str] = set()
        self._lacks: dict[LayerError, _Lack] = {}
        self._materialized: dict[tuple[str, Any], tuple[BlobView, BlobView]] = {}

    def lower_graph(self, graph: Graph) -> None:
        """Add the layers of a graph whose inputs already have views.

        Raises one LayerError that names the operators that cannot be written, the first one in full. Their outputs
        get blobs that no layer produces, so that operators which read them are checked, too.
        """
        self.producers = {v: op for op in graph.ops for v in op.outputs}
        self.consumers, self.parts = Consumers(graph.ops, graph.outputs), None
        refused: list[LayerError] = []
        missing: set[Value] = set()
        for op in graph.ops:
            if any(v in missing for v in op.inputs if v is not None):
                missing.update(op.outputs)
                continue
            try:
                self._lower(op)
            except LayerError as error:
                refused.append(error)
                for v in op.outputs:
                    if all(isinstance(n, (int, np.integer)) for n in v.shape):
                        self.shapes[v.name] = tuple(map(int, v.shape))
                        self.set_view(v, BlobView(v.name, self.shapes[v.name]))
                    else:
                        missing.add(v)
        _raise_combined(refused, self._lacks)

    def _lower(self, op: Op) -> None:
        """Add the layers of one operator, unless its outputs have views already."""
        if all(v in self.views for v in op.outputs):
            return
        self.scope = op.scope
        with at(self.places.get(op.scope, op.scope)):
            lowering = self.lowerings.get(op.op) if not op.domain else self.lowerings.get("")
            if lowering is None:
                raise self.refusal(f"no layer for {op.op}")
            view = lowering(self, op)
            if view is not None:
                self.set_view(op.outputs[0], view)

    # ---- values

    def view(self, value: Value | None) -> BlobView:
        """Return the view of a value. A constant becomes a blob. Raises LayerError for an absent input."""
        if value is None:
            raise LayerError("a required input of the operator is absent")
        if value not in self.views and value.const is not None:
            self.views[value] = self.constant_blob(value.const)
        if value not in self.views:
            raise LayerError(f"{value!r} is computed by no operator")
        return self.views[value]

    def set_view(self, value: Value, view: BlobView) -> None:
        """Set the view of an operator's output, reshaped to the output's shape."""
        self.views[value] = view.reshaped(tuple(int(n) for n in value.shape))

    def materialized(self, value: Value | BlobView | None) -> BlobView:
        """Return a view without steps: add layers for the deferred steps, once for equal views."""
        view = value if isinstance(value, BlobView) else self.view(value)
        if not view.steps:
            return view
        key = (view.name, tuple((s.axis, id(s.matrix)) if isinstance(s, AxisProduct) else s for s in view.steps))
        # storing the view keeps its matrices alive, so that their ids stay unique
        if key not in self._materialized:
            self._materialized[key] = (view, materialize(self, view))
        return self._materialized[key][1]

    def rearrangement(self, view: BlobView) -> BlobView:
        """Return a view that only rearranges the elements of a blob: this one, or its result in a blob."""
        return view if view.is_rearrangement else self.materialized(view)

    def blobs_and_axes(self, *views: BlobView) -> tuple[list[BlobView], Shape]:
        """Return (blobs, axes): each value is its blob, transposed by the axes.

        Values with the same permutation are not materialized.
        """
        axes = views[0].perm
        if axes is not None and all(v.perm == axes for v in views):
            return [BlobView(v.name, v.base) for v in views], axes
        return [self.materialized(v) for v in views], tuple(range(len(views[0].shape)))

    def constant_blob(self, array: Array) -> BlobView:
        """Add a layer that produces a constant (DummyData where all elements are equal, else Parameter)."""
        need(array.dtype.kind == "f", f"a layer reads a constant of {array.dtype}, but Caffe has float32 only")
        values = np.asarray(array, np.float32)
        dims = {"shape": {"dim": [int(d) for d in values.shape]}}
        if values.size and (values == values.flat[0]).all() and self.dialect.has("DummyData"):
            filler = {"data_filler": {"type": "constant", "value": float(values.flat[0])}}
            return self.add(
                "DummyData", [], values.shape, {"dummy_data_param": {**filler, **dims}}, suffix="constant"
            )
        if not self.dialect.has("Parameter"):
            raise self.refusal("no layer that gives a constant", "Parameter")
        return self.add("Parameter", [], values.shape, {"parameter_param": dims}, [values], suffix="constant")

    def integers(self, op: Op, i: int, what: str) -> list[int]:
        """Return the elements of input `i`. Raises LayerError where it is computed."""
        array = self.given(op.constant(i), f"no {what} that are computed when the network runs")
        return [int(n) for n in array.reshape(-1)]

    def has_one_consumer(self, value: Value | None) -> bool:
        """Return whether an operator's output, and each value of which it is a rearrangement, has one consumer.

        Then the layer that produces it may be changed. The answer is False for inputs of the graph and constants.
        """
        while value is not None and self.consumers.count(value) == 1:
            producer = self.producers.get(value)
            if producer is None or not preserves_values(producer):
                return producer is not None
            value = producer.inputs[0]
        return False

    def constant_on_blob(self, view: BlobView, array: Array) -> Array:
        """Return a constant that broadcasts to a value in the layout of the value's blob.

        The result has the blob's rank, and size 1 along each axis on which it does not vary. The view must be a
        rearrangement.
        """
        rank = len(view.shape)
        array = np.asarray(array, np.float32).reshape((1,) * (rank - array.ndim) + array.shape)
        if view.perm is None:
            size = math.prod(view.base)
            need(
                size <= _MAX_CONSTANT_VALUES,
                f"a constant would be expanded to {size} elements; at most {_MAX_CONSTANT_VALUES} are possible",
            )
        array = view.to_blob_layout(array)
        for axis, n in enumerate(array.shape):
            first = array.take([0], axis)
            if n > 1 and (array == first).all():
                array = first
        return array

    # ---- layers

    def refusal(self, what: str, type_: str = "") -> LayerError:
        """Return the error for something that the dialect cannot express: "Caffe has <what>".

        It names the dialects that have layers of a type, if the type is given.
        """
        name = f" (dialect '{self.dialect.name}')" if self.dialect.name else ""
        having = [other for other in dialect_names() if dialect_of(other).has(type_)] if type_ else []
        lack = _Lack(f"Caffe{name} has {what}", type_ or what, having)
        error = LayerError(f"{lack.rule}. {_remedy(having)}")
        self._lacks[error] = lack
        return error

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
        sources = [self.materialized(b).name for b in bottoms]
        self.count_uses(sources)
        name = self._free_layer_name(suffix, type_)
        top_names = [name] if len(shapes) == 1 else [f"{name}/{i}" for i in range(len(shapes))]
        tops = [unused_name(top, self.blob_names) for top in top_names]
        nonempty = {k: v for k, v in (params or {}).items() if v}
        layer = CaffeLayer(name, type_, sources, tops, nonempty, [np.asarray(b) for b in blobs])
        layer.place = self.places.get(self.scope, "")
        self.net.layers.append(layer)
        self.layers.update(dict.fromkeys(tops, layer))
        sizes = [tuple(int(n) for n in s) for s in shapes]
        self.shapes.update(zip(tops, sizes))
        return [BlobView(top, s) for top, s in zip(tops, sizes)]

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


@dataclass(frozen=True, slots=True)
class _Lack:
    """Something that the dialect lacks: `rule` says it in a sentence, and the dialects in `having` have it."""

    rule: str
    what: str
    having: Sequence[str]


def _remedy(having: Sequence[str]) -> str:
    another = f"name a dialect that has it ({some(having, 5)}), " if having else ""
    keep = wording("keep=[...]", "--keep TYPE")
    return f"Keep the layer as one of the target's own ({keep}), {another}or write ONNX"


def _raise_combined(refused: list[LayerError], lacks: Mapping[LayerError, _Lack]) -> None:
    """Raise the first error, with the rules of up to three others appended. Do nothing for an empty list.
    lacks: what the dialect lacks, for the errors that say so.

    What the dialect lacks besides comes first, and only dialects that have everything are named.
    """
    if not refused:
        return
    first, lacking = refused[0], set[str]()
    others: dict[str, bool] = {}  # text -> whether it lacks what an earlier one lacks
    for error in refused:
        text, what = str(error).split(". ")[0], lacks[error].what if error in lacks else error.message
        if text not in str(first):
            others.setdefault(text, what in lacking)
        lacking.add(what)
    if not others:
        raise first
    file = "".join(first.places[:1]).rpartition(": ")[0]
    shown = [text.removeprefix(f"{file}: ") for text in sorted(others, key=others.__getitem__)]
    rule, remedy = first.message, ""
    if first in lacks:
        having = [d for d in lacks[first].having if all(e in lacks and d in lacks[e].having for e in refused)]
        rule, remedy = lacks[first].rule, f". {_remedy(having)}"
    more = "; ..." if len(others) > 3 else ""
    raise LayerError(f"{rule}. {len(others)} more: {'; '.join(shown[:3])}{more}{remedy}", *first.places)
