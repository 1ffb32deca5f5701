"""Turn the operators of a graph into Caffe layers, one operator after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anylayer.errors import LayerError, at, need
from anylayer.graph import Graph, Op, Value
from anylayer.graph.operators import REARRANGES
from anylayer.network import Array, Shape
from anylayer.writers._target import Consumers
from anylayer.writers.caffe.emitter import Emitter
from anylayer.writers.caffe.layers import CaffeNet
from anylayer.writers.caffe.materialize import materialize
from anylayer.writers.caffe.views import AxisProduct, BlobView

CaffeLowering = Callable[["CaffeBuilder", Op], None]
"""Adds the layers of one operator and sets the views of its outputs."""

_MAX_CONSTANT_VALUES = 1 << 26
"""The largest number of elements to which a constant is expanded."""


def preserves_values(op: Op) -> bool:
    """Return whether an operator keeps the value of each element of its first input."""
    return op in REARRANGES or op.op in ("Cast", "Dropout")


class CaffeBuilder(Emitter):
    """Adds layers for operators to `net`.

    `lowerings` maps an ONNX operator to the function that adds its layers; "" stands for operators outside ONNX's
    domain. With `fold`, batch normalisation is folded into the weights of the layer before it. With `blog_compat`,
    its epsilon is added to the stored variance, and Caffe adds its own epsilon once more. `views` maps a value to
    its blob and deferred steps. `mergeable` are blobs into whose producer the bias that is being added may be
    folded.
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
        super().__init__(net, places)
        self.lowerings, self.fold, self.blog_compat = lowerings, fold, blog_compat
        self.views: dict[Value, BlobView] = {}
        self.producers: dict[Value, Op] = {}
        self.consumers = Consumers((), ())
        self.mergeable: set[str] = set()
        self._materialized: dict[tuple[str, Any], tuple[BlobView, BlobView]] = {}

    def lower_graph(self, graph: Graph) -> None:
        """Add the layers of a graph whose inputs already have views.

        Raises one LayerError that names the operators that cannot be written, the first one in full.
        """
        self.producers = {v: op for op in graph.ops for v in op.outputs}
        self.consumers = Consumers(graph.ops, graph.outputs)
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
                missing.update(op.outputs)
        _raise_combined(refused)

    def _lower(self, op: Op) -> None:
        """Add the layers of one operator, unless its outputs have views already."""
        if all(v in self.views for v in op.outputs):
            return
        self.scope = op.scope
        with at(self.places.get(op.scope, op.scope)):
            lowering = self.lowerings.get(op.op) if not op.domain else self.lowerings.get("")
            if lowering is None:
                raise self.refusal(f"no layer for {op.op}")
            lowering(self, op)

    # ---- values

    def view(self, value: Value | None) -> BlobView:
        """Return the view of a value. A constant becomes a blob. Raises LayerError for an absent input."""
        if value is None:
            raise LayerError("a required input of the operator is absent")
        found = self.views.get(value)
        if found is None and value.const is not None:
            found = self.views[value] = self.constant_blob(value.const)
        if found is None:
            raise LayerError(f"{value!r} is computed by no operator")
        return found

    def set_view(self, value: Value, view: BlobView) -> None:
        """Set the view of an operator's output, reshaped to the output's shape."""
        self.views[value] = view.reshaped(tuple(int(n) for n in value.shape))

    def materialized(self, value: Value | BlobView | None) -> BlobView:
        """Return a view without steps: add layers for the deferred steps, once for equal views."""
        view = value if isinstance(value, BlobView) else self.view(value)
        if not view.steps:
            return view
        key = (view.name, tuple((s.axis, id(s.matrix)) if isinstance(s, AxisProduct) else s for s in view.steps))
        found = self._materialized.get(key)
        if found is None:  # storing the view keeps its matrices alive, so that their ids stay unique
            found = self._materialized[key] = (view, materialize(self, view))
        return found[1]

    def blobs_and_axes(self, *views: BlobView) -> tuple[list[BlobView], Shape]:
        """Return (blobs, axes): each value is its blob, transposed by the axes.

        Values with the same permutation are not materialized.
        """
        axes = views[0].perm
        if axes is not None and all(v.perm == axes for v in views):
            return [BlobView(v.name, v.base) for v in views], axes
        return [self.materialized(v) for v in views], tuple(range(len(views[0].shape)))

    def bottom(self, view: BlobView) -> str:
        """Return the name of a blob that holds the view, materialized if necessary."""
        return self.materialized(view).name

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

    def const_array(self, value: Value | None) -> Array | None:
        """Return the elements of a constant; None for an absent or computed value."""
        return None if value is None or value.const is None else np.asarray(value.const)

    def integers(self, value: Value | None, what: str) -> list[int]:
        """Return the elements of an integer constant. Raises LayerError where the value is computed."""
        array = self.const_array(value)
        if array is None:
            raise self.refusal(f"no {what} that are computed when the network runs")
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

    def constant_on_blob(self, view: BlobView, array: Array) -> Array | None:
        """Return a constant that broadcasts to a value in the layout of the value's blob.

        The result has the blob's rank, and size 1 along each axis on which it does not vary. It is None where the
        view is more than a rearrangement.
        """
        if not view.is_rearrangement:
            return None
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


def _raise_combined(refused: list[LayerError]) -> None:
    """Raise the first error, with the rules of up to three others appended. Do nothing for an empty list."""
    if not refused:
        return
    first = refused[0]
    others = [text for text in dict.fromkeys(str(e).split(". ")[0] for e in refused) if text not in str(first)]
    if others:
        more = "; ..." if len(others) > 3 else ""
        raise LayerError(f"{first.message}. {len(others)} more: {'; '.join(others[:3])}{more}", *first.places)
    raise first
