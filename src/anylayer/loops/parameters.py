"""Find the free params and blobs of a layer: those that do not affect control flow or shapes, so that they can be
parameters of its function. The layer is traced with other values of a param. The param is free if only constants
of the graph change, and each element that changes equals the param at every value that is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anylayer.graph import Graph, Value
from anylayer.layer import Bound
from anylayer.layer.opencv import opencv_params
from anylayer.network import Array, Flag, Node


@dataclass(frozen=True, slots=True)
class ParamNumber:
    """A number of a param: its name, and its position in a list."""

    name: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class BlobElements:
    """The source of a constant whose elements are those of a blob, in the same order."""

    number: int


Parameters = Mapping[Value, Sequence[ParamNumber | Any] | BlobElements]
"""The source of the elements of a constant: a blob, or for each element a ParamNumber or a plain number."""
Compare = Callable[[Graph, Graph, dict[Value, Value]], str]
"""A function that returns how two graphs differ apart from their constants. It adds the pairs of constants that
differ to the given dict.
"""


def find(
    layer: Bound, trace: Callable[[Bound], Graph], compare: Compare, special: set[str] | None = None
) -> tuple[Graph, Parameters]:
    """Return the graph of a layer, and for each constant that contains free params or a free blob, its source.

    trace: returns the graph of the layer with another node. compare: see Compare. special: if given, blobs are
    never free, and a param may be free although the layer records something else where it is 0 or 1. The names of
    such params are added to this set.
    """
    with np.errstate(all="ignore"):
        return _Search(layer, trace, compare, special).run()


class _Search:
    def __init__(
        self, layer: Bound, trace: Callable[[Bound], Graph], compare: Compare, special: set[str] | None
    ) -> None:
        self.layer, self.trace, self.compare, self.special = layer, trace, compare, special
        self.params = opencv_params(layer.node.params, layer.node.defaults)
        self.real = self.graph(layer.node)

    def run(self) -> tuple[Graph, Parameters]:
        values: dict[str, Any] = {}
        for k, (name, value) in enumerate(self.params.items()):
            if self.is_free([self.with_values({name: v}) for v in others(value)], name, None):
                values[name] = others(value, k)[0]
        blobs = {}
        for i, blob in enumerate(self.layer.node.blobs if self.special is None else ()):
            if blob.dtype == np.float32 and self.is_free([self.with_blob(i, b) for b in other_blobs(blob)], "", i):
                blobs[i] = other_blobs(blob, i)[0]
        if not values and not blobs:
            return self.real, {}
        arrays = [blobs.get(i, b) for i, b in enumerate(self.layer.node.blobs)]
        graph = self.graph(replace(self.with_values(values), blobs=arrays))
        changed: dict[Value, Value] = {}
        found = {} if self.compare(graph, self.real, changed) else self.marked(changed, values, blobs)
        return (graph, found) if len(found) == len(changed) else (self.real, {})

    def graph(self, node: Node) -> Graph:
        layer = self.layer
        return self.trace(Bound(node, layer.definition, layer.types, layer.dialect, layer.dtype))

    def with_values(self, values: Mapping[str, Any]) -> Node:
        """Return the node with other values of params."""

        def changed(params: Any) -> Any:
            if isinstance(params, Mapping):
                return {
                    k: values[k] if k in values and not isinstance(v, Mapping) else changed(v)
                    for k, v in params.items()
                }
            return [changed(v) for v in params] if isinstance(params, list) else params

        node = self.layer.node
        return replace(node, params=changed(node.params), defaults=changed(node.defaults))

    def with_blob(self, at: int, blob: Array) -> Node:
        node = self.layer.node
        return replace(node, blobs=[blob if i == at else b for i, b in enumerate(node.blobs)])

    def is_free(self, nodes: Sequence[Node], name: str, blob: int | None) -> bool:
        """Return whether a param or a blob is free: the graphs of `nodes`, which differ in its value, differ from
        that of the layer only in constants that contain it.
        """
        found = 0
        for i, node in enumerate(nodes):
            changed: dict[Value, Value] = {}
            try:
                differs = bool(self.compare(self.real, self.graph(node), changed))
            except Exception:  # another value may break a rule of any function that the layer calls
                differs = True
            if differs and i >= _GENERAL and self.special is not None:
                self.special.add(name)
                continue
            if differs or not all(self.holds(v, w, self.layer.node, node, name, blob) for v, w in changed.items()):
                return False
            found += len(changed)
        return found > 0

    def holds(self, v: Value, w: Value, a: Node, b: Node, name: str, blob: int | None) -> bool:
        """Return whether two constants differ only in elements that equal the param or blob of `a` and `b`."""
        if v.const is None or w.const is None or v.dtype.kind not in "fiu":
            return False
        if blob is None and v.const.size > _MAX_ELEMENTS:
            return False
        if blob is not None:
            return all(_is_blob(x.const, node.blobs[blob]) for x, node in ((v, a), (w, b)))
        first, second = (_numbers(opencv_params(n.params, n.defaults)[name]) for n in (a, b))
        same = np.asarray(v.const).reshape(-1) == np.asarray(w.const).reshape(-1)
        pairs = zip(np.asarray(v.const).reshape(-1)[~same], np.asarray(w.const).reshape(-1)[~same])
        return all(
            any(x == _as(p, v.dtype) and y == _as(q, v.dtype) for p, q in zip(first, second)) for x, y in pairs
        )

    def marked(
        self, changed: Mapping[Value, Value], values: Mapping[str, Any], blobs: Mapping[int, Array]
    ) -> dict[Value, Sequence[ParamNumber | Any] | BlobElements]:
        """Return the source of each constant that changes with the free params and blobs. Constants whose elements
        are not exactly params or a blob are omitted.
        """
        numbers = {
            ParamNumber(name, at): x for name, value in values.items() for at, x in enumerate(_numbers(value))
        }
        own = {p: _numbers(self.params[p.name])[p.at] for p in numbers}
        found: dict[Value, Sequence[ParamNumber | Any] | BlobElements] = {}
        for v, w in changed.items():
            blob = next((i for i, b in blobs.items() if _is_blob(v.const, b)), None)
            if blob is not None and _is_blob(w.const, self.layer.node.blobs[blob]):
                found[v] = BlobElements(blob)
                continue
            pairs = zip(np.asarray(v.const).reshape(-1).tolist(), np.asarray(w.const).reshape(-1).tolist())
            elements = []
            for x, y in pairs:
                fitting = [p for p in numbers if x == _as(numbers[p], v.dtype) and y == _as(own[p], v.dtype)]
                elements += fitting[:1] or [x] * (x == y)
            if len(elements) == np.asarray(v.const).size:
                found[v] = elements
        return found


_MAX_ELEMENTS = 64
"""The largest number of elements of a constant that may contain params."""


def _numbers(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _as(number: Any, dtype: np.dtype[Any]) -> Any:
    return np.asarray(number).astype(dtype).item()


def _is_blob(const: Array | None, blob: Array) -> bool:
    """Return whether a constant has the elements of a blob."""
    if const is None or const.size != blob.size or const.dtype != blob.dtype:
        return False
    return bool((np.asarray(const).reshape(-1) == np.asarray(blob).reshape(-1)).all())


_GENERAL = 2
"""The number of values that `others` returns before those that layers often treat in their own way: 0 and 1."""


def others(value: Any, k: int = 0) -> list[Any]:
    """Return other values of a param. The first depends on `k`, so that the layer's code hardly contains it."""
    values = _numbers(value)
    if not values or not all(isinstance(v, (int, float)) and not isinstance(v, (bool, Flag)) for v in values):
        return []
    several = isinstance(value, (tuple, list))
    found: list[list[Any]] = []
    for factor, more in ((1.37, 0.1230469 + 0.03125 * k), (-0.71, -0.3779297), (0.0, 0.0), (0.0, 1.0)):
        moved = [v * factor + more * (1 + 0.25 * i * (more != 0)) for i, v in enumerate(values)]
        whole = [round(v * 7) + 1009 + 64 * k + i if factor > 0 else round(v) for i, v in enumerate(moved)]
        found.append([float(m) if isinstance(v, float) else w for v, m, w in zip(values, moved, whole)])
    return [type(value)(v) if several else v[0] for v in found]


def other_blobs(blob: Array, k: int = 0) -> list[Array]:
    """Return other values of a blob. The first ones differ for each `k`."""
    noise = np.random.default_rng(k).standard_normal(blob.shape).astype(blob.dtype)
    return [noise, -2 * noise, np.zeros_like(blob), np.ones_like(blob)]
