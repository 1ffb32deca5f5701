"""The layers that are being made of a graph of ONNX operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from anylayer.errors import LayerError, at, need, wording
from anylayer.graph import Graph, Op, Value
from anylayer.network import Array, Shape
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet, free
from anylayer.writers.caffe.settling import settle
from anylayer.writers.caffe.views import Mix, Reshape, View

Form = Callable[["Builder", Op], None]
MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Cast")
"""Operators that leave each element as it is."""

_MOST_SPREAD = 1 << 26
"""Elements of a constant that is laid out to a value's whole shape."""


class Builder:
    """Takes operators one after the other and adds layers for them to `net`.

    `places` name the source's nodes by scope, for errors. `fold`: batch normalisation goes into the weights before
    it where it can. `blog_compat`: its epsilon is added to the variance, and Caffe's own once more. `taken` are
    the names of layers, `blobs` those of blobs. `custom` are types that are the target's own. `kept` are graphs
    whose values are known by their identity. `mergeable` are the blobs whose layer may take over a bias that is
    being added.
    """

    def __init__(
        self,
        net: CaffeNet,
        forms: Mapping[str, Form],
        places: Mapping[str, str],
        *,
        fold: bool = False,
        blog_compat: bool = False,
    ) -> None:
        self.net, self.forms, self.places, self.fold, self.blog_compat = net, forms, places, fold, blog_compat
        self.dialect = net.dialect
        self.scope = ""
        self.views: dict[Value, View] = {}
        self.layers: dict[str, CaffeLayer] = {}
        self.shapes: dict[str, Shape] = {}
        self.uses: dict[Value, int] = {}
        self.readers: dict[Value, list[Op]] = {}
        self.read: dict[str, int] = {}
        self.mergeable: set[str] = set()
        self.inputs: set[str] = set()
        self.kept: list[Graph] = []
        self.custom: set[str] = set()
        self.makers: dict[Value, Op] = {}
        self.taken: set[str] = {layer.name for layer in net.layers}
        self.blobs: set[str] = {t for x in net.layers for t in x.tops} | set(net.inputs)
        self._settled: dict[tuple[str, Any], tuple[View, View]] = {}

    def run(self, graph: Graph) -> None:
        """Add the layers of a graph whose inputs have views already. All operators that cannot be written are
        refused together."""
        for op in graph.ops:
            self.makers.update((v, op) for v in op.outputs)
            read = [v for v in op.inputs if v is not None]
            for key in dict.fromkeys(read):
                self.readers.setdefault(key, []).append(op)
            for v in read:
                self.uses[v] = self.uses.get(v, 0) + 1
        for v in graph.outputs:
            self.uses[v] = self.uses.get(v, 0) + 1
        refused: list[LayerError] = []
        lost: set[Value] = set()
        for op in graph.ops:
            if any(v in lost for v in op.inputs if v is not None):
                lost.update(v for v in op.outputs)
                continue
            try:
                self.take(op)
            except LayerError as error:
                refused.append(error)
                lost.update(v for v in op.outputs)
        _raise_all(refused)

    def take(self, op: Op) -> None:
        """Add the layers of one operator."""
        if all(v in self.views for v in op.outputs):
            return
        self.scope = op.scope
        with at(self.places.get(op.scope, op.scope)):
            form = self.forms.get(op.op) if not op.domain else self.forms.get("")
            if form is None:
                raise self.refusal(f"no layer for {op.op}")
            form(self, op)

    def refusal(self, what: str) -> LayerError:
        """The error for something that the dialect cannot express."""
        name = f" (dialect '{self.dialect.name}')" if self.dialect.name else ""
        return LayerError(
            f"Caffe{name} has {what}. Keep the layer as one of the target's own "
            f"({wording('keep=[...]', '--keep TYPE')}), name a dialect that has it, or write ONNX"
        )

    def need(self, condition: Any, what: str) -> None:
        """Refuse where the condition does not hold: `what` is completed by "Caffe has ..."."""
        if not condition:
            raise self.refusal(what)

    # ---- values

    def view(self, value: Value | None) -> View:
        """What a value is; a constant becomes a blob."""
        if value is None:
            raise LayerError("an input is left out")
        found = self.views.get(value)
        if found is None and value.const is not None:
            found = self.views[value] = self.constant(value.const)
        if found is None:
            raise LayerError(f"{value!r} is computed by no operator")
        return found

    def give(self, value: Value, view: View) -> None:
        """Say what an operator's output is."""
        shape = tuple(value.shape)
        if view.shape != shape:
            view = view.then(Reshape(shape))
        self.views[value] = view

    def settled(self, value: Value | View | None) -> View:
        """A view without steps: what is put off becomes layers."""
        view = value if isinstance(value, View) else self.view(value)
        if not view.steps:
            return view
        key = (view.name, tuple((s.axis, id(s.matrix)) if isinstance(s, Mix) else s for s in view.steps))
        found = self._settled.get(key)
        if found is None:  # the view is kept too: it holds the matrices that the key names by their ids
            found = self._settled[key] = (view, settle(self, view))
        return found[1]

    def constant(self, array: Array) -> View:
        """A constant as a blob."""
        need(array.dtype.kind == "f", f"a constant of {array.dtype} is read as data: Caffe has float32 only")
        values = np.asarray(array, np.float32)
        dims = {"shape": {"dim": [int(d) for d in values.shape]}}
        if values.size and (values == values.flat[0]).all() and self.dialect.has("DummyData"):
            filler = {"data_filler": {"type": "constant", "value": float(values.flat[0])}}
            return self.add(
                "DummyData", [], values.shape, {"dummy_data_param": {**filler, **dims}}, suffix="constant"
            )
        self.need(self.dialect.has("Parameter"), "no layer that gives a constant")
        return self.add("Parameter", [], values.shape, {"parameter_param": dims}, [values], suffix="constant")

    def const(self, value: Value | None) -> Array | None:
        """A constant's values; None where it is computed."""
        return None if value is None or value.const is None else np.asarray(value.const)

    def numbers(self, value: Value | None, what: str) -> list[int]:
        """Integers that must be known."""
        array = self.const(value)
        if array is None:
            raise self.refusal(f"no {what} that are computed when the network runs")
        return [int(n) for n in array.reshape(-1)]

    def only_use(self, value: Value | None) -> bool:
        """Whether one operator alone reads the value, and what it is but for moves."""
        while value is not None and self.uses.get(value, 0) == 1:
            maker = self.makers.get(value)
            if maker is None or maker.op not in MOVES:
                return maker is not None
            value = maker.inputs[0]
        return False

    def reads(self, blob: str) -> int:
        """How many layers read a blob."""
        return self.read.get(blob, 0)

    # ---- layers

    def add(
        self,
        type_: str,
        bottoms: Sequence[View],
        shape: Sequence[int],
        params: Mapping[str, Any] | None = None,
        blobs: Sequence[Array] = (),
        *,
        suffix: str = "",
    ) -> View:
        """A layer with one top of this shape."""
        return self.add_many(type_, bottoms, [shape], params, blobs, suffix=suffix)[0]

    def add_many(
        self,
        type_: str,
        bottoms: Sequence[View],
        shapes: Sequence[Sequence[int]],
        params: Mapping[str, Any] | None = None,
        blobs: Sequence[Array] = (),
        *,
        suffix: str = "",
    ) -> list[View]:
        """A layer with a top for each shape. Its name is the scope's, or scope/suffix."""
        self.need(self.dialect.has(type_) or type_ in self.custom, f"no layer {type_}")
        sources = [self.settled(b).name for b in bottoms]
        for source in sources:
            self.read[source] = self.read.get(source, 0) + 1
        name = self.name(suffix, type_)
        wanted = [name] if len(shapes) == 1 else [f"{name}/{i}" for i in range(len(shapes))]
        tops = [free(top, self.blobs) for top in wanted]
        given = {k: v for k, v in (params or {}).items() if v}
        layer = CaffeLayer(name, type_, sources, tops, given, [np.asarray(b) for b in blobs])
        layer.place = self.places.get(self.scope, "")
        self.net.layers.append(layer)
        self.layers.update(dict.fromkeys(tops, layer))
        found = [tuple(int(n) for n in s) for s in shapes]
        self.shapes.update(zip(tops, found))
        return [View(top, s) for top, s in zip(tops, found)]

    def name(self, suffix: str, type_: str) -> str:
        """A free name for a layer of the current scope."""
        scope = self.scope or type_.lower()
        if not suffix and scope not in self.taken:
            return free(scope, self.taken)
        return free(scope + (suffix if suffix.startswith("_") else f"/{suffix or type_.lower()}"), self.taken)

    @contextmanager
    def within(self, scope: str) -> Iterator[None]:
        """Name layers after another scope."""
        before, self.scope = self.scope, scope
        yield
        self.scope = before

    def input(self, value: Value, name: str) -> None:
        """An input of the graph is a blob that is there."""
        self.views[value] = View(name, tuple(value.shape))
        self.shapes[name] = tuple(value.shape)

    def producer(self, view: View, *types: str) -> CaffeLayer | None:
        """The layer that gives a view without steps, where it is of one of these types."""
        layer = None if view.steps else self.layers.get(view.name)
        return layer if layer is not None and layer.type in types else None

    # ---- constants that lie on a value

    def spread(self, view: View, array: Array) -> Array | None:
        """A constant that is broadcast to a value, as it lies on the value's blob: of the blob's rank, 1 along
        each axis it does not vary on. None where the steps are more than moves."""
        if not view.moves_only:
            return None
        rank = len(view.shape)
        array = np.asarray(array, np.float32).reshape((1,) * (rank - array.ndim) + array.shape)
        if view.perm is None:
            need(math.prod(view.base) <= _MOST_SPREAD, "a constant lies on too large a value")
        array = view.back(array)
        for axis, n in enumerate(array.shape):
            first = array.take([0], axis)
            if n > 1 and (array == first).all():
                array = first
        return array


def _raise_all(refused: list[LayerError]) -> None:
    if not refused:
        return
    first = refused[0]
    others = [text for text in dict.fromkeys(str(e).split(". ")[0] for e in refused) if text not in str(first)]
    if others:
        more = "; ..." if len(others) > 3 else ""
        raise LayerError(f"{first.message}. {len(others)} more: {'; '.join(others[:3])}{more}", *first.places)
    raise first
