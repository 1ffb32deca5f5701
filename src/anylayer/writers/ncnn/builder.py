"""ncnn: a graph as the text of its .param file and the weights that belong behind it, in the order they are read.

ncnn's blobs have one to four axes and none for the batch, and a blob is a shape over row-major data: so a value is
kept in whatever shape its operator made, and brought into another one only where an operator needs it. Formats:
https://github.com/Tencent/ncnn/wiki/param-and-model-file-structure, layers: its docs/developer-guide/operators.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from anylayer.errors import EngineError
from anylayer.graph import Graph, Op, Value
from anylayer.graph.intervals import Intervals
from anylayer.network import Array

_MAGIC = 7767517
RANK = 4
_RAW = np.zeros(1, np.int32)
"""The word in front of weights that might have been quantized: they are not."""

Shape = tuple[int, ...]
Params = Mapping[int, "int | float | Sequence[int] | Sequence[float]"]


@dataclass(slots=True)
class Layer:
    """One line of the .param file."""

    type: str
    inputs: list[str]
    outputs: list[str]
    params: Params
    weights: list[Array] = field(default_factory=list)


@dataclass(slots=True)
class NcnnModel:
    """`text` is the .param file, `weights` the .bin file in pieces; `inputs` are blobs with their shapes,
    `outputs` blobs. None stands for an input that nothing reads."""

    text: str
    weights: list[Array]
    inputs: list[tuple[str, Shape] | None]
    outputs: list[str]
    changed_in_place: list[bool]


class Unsupported(Exception):
    """Why an operator has no form."""


def require(condition: bool, why: str = "") -> None:
    """Raise Unsupported unless the condition holds."""
    if not condition:
        raise Unsupported(why)


def given(value: Value | None) -> Value:
    if value is None:
        raise Unsupported("an input that is left out")
    return value


class Builder:
    """The ncnn network that is being made of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.layers: list[Layer] = []
        self.shapes: dict[str, Shape] = {}
        self.blobs: dict[Value, str] = {}
        self.folded: set[Op] = set()
        self._viewed: dict[tuple[str, Shape], str] = {}
        self._readers: dict[Value, list[Op]] = {}
        self._kept = set(graph.outputs)
        for o in graph.ops:
            for v in {v: v for v in o.inputs if v is not None}.values():
                self._readers.setdefault(v, []).append(o)

    @cached_property
    def intervals(self) -> Intervals:
        """The intervals of the graph's values."""
        return Intervals(self.graph.producers).of_all(self.graph.ops)

    def only_reader(self, value: Value) -> Op | None:
        """The operator that reads the value, where it is one alone and the value is no output."""
        readers = self._readers.get(value, [])
        return readers[0] if len(readers) == 1 and value not in self._kept else None

    def add(
        self,
        type_: str,
        inputs: Sequence[str],
        shapes: Sequence[Shape],
        params: Params | None = None,
        weights: Sequence[Array] = (),
    ) -> list[str]:
        """A layer with outputs of these shapes; gives their names."""
        for shape in shapes:
            _require_rank(shape)
            require(all(d > 0 for d in shape), f"the shape {list(shape)}")
        names = [f"b{len(self.shapes) + i}" for i in range(len(shapes))]
        self.shapes.update(zip(names, shapes))
        self.layers.append(Layer(type_, list(inputs), names, dict(params or {}), list(weights)))
        return names

    def one(
        self,
        type_: str,
        inputs: Sequence[str],
        shape: Shape,
        params: Params | None = None,
        weights: Sequence[Array] = (),
    ) -> str:
        """A layer with one output."""
        return self.add(type_, inputs, [shape], params, weights)[0]

    def blob(self, value: Value | None) -> str:
        """The blob that holds a value, in the shape it has."""
        value = given(value)
        if value not in self.blobs:
            require(value.const is not None, "an input that no operator makes")
            array = np.asarray(value.const)
            require(array.dtype == np.float32, f"a constant of {array.dtype}")
            self.blobs[value] = self.memory(array, fitting(value.shape))
        return self.blobs[value]

    def memory(self, array: Array, shape: Shape) -> str:
        """A blob of constant data."""
        data = np.ascontiguousarray(array, np.float32).reshape(-1)
        return self.one("MemoryData", [], shape, extents(shape), [data])

    def viewed(self, blob: str, shape: Shape) -> str:
        """The same data in another shape."""
        if self.shapes[blob] == shape:
            return blob
        found = self._viewed.get((blob, shape))
        if found is None:
            found = self._viewed[blob, shape] = self.one("Reshape", [blob], shape, extents(shape))
        return found

    def get(self, value: Value | None, shape: Shape) -> str:
        """The blob of a value in a certain shape."""
        return self.viewed(self.blob(value), shape)


def _require_rank(shape: Shape) -> None:
    require(1 <= len(shape) <= RANK, f"{len(shape)} axes, at most {RANK} are possible")


def natural(shape: Sequence[int]) -> Shape:
    """A value's shape as a blob has it: without the axis of the batch, where that is 1."""
    shape = tuple(shape)
    if len(shape) > 1 and shape[0] == 1:
        return shape[1:]
    return shape or (1,)


def fitting(shape: Sequence[int]) -> Shape:
    """The same, or one axis where a blob cannot have as many."""
    plain = natural(shape)
    return plain if len(plain) <= RANK else (math.prod(plain),)


def extents(shape: Shape) -> dict[int, int]:
    """A shape as parameters 0 (w), 1 (h), 11 (d) and 2 (c)."""
    _require_rank(shape)
    keys = {1: (0,), 2: (1, 0), 3: (2, 1, 0), 4: (2, 11, 1, 0)}[len(shape)]
    return dict(sorted(zip(keys, shape)))


Form = Callable[[Builder, Op], "list[str]"]


def write(graph: Graph, forms: Mapping[str, Form]) -> NcnnModel:
    """The graph as an ncnn network, each operator by its form in `forms`.

    Raises EngineError naming the first operator that has none.
    """
    b = Builder(graph)
    inputs: list[tuple[str, Shape] | None] = []
    for value in graph.inputs:
        inputs.append(_input(b, value))
    for op in graph.ops:
        if op not in b.folded:
            _write(b, op, forms)
    outputs = [_output(b, v) for v in graph.outputs]
    changed = [i is not None and not _only_copied(b, i[0]) for i in inputs]
    copies = _split(b, outputs)
    return NcnnModel(_text(b), [w for y in b.layers for w in y.weights], inputs, copies, changed)


def _input(b: Builder, value: Value) -> tuple[str, Shape] | None:
    if not b._readers.get(value) and value not in b._kept:
        return None
    if value.dtype != np.float32 or not all(isinstance(d, int) and d > 0 for d in value.shape):
        raise EngineError(f"engine 'ncnn' takes float32 of known size, got input '{value.name}' {value.type}")
    shape = fitting(value.shape)
    blob = b.blobs[value] = b.one("Input", [], shape, extents(shape))
    return blob, shape


def _output(b: Builder, value: Value) -> str:
    try:
        return b.blob(value)
    except Unsupported as why:
        raise EngineError(f"engine 'ncnn' cannot give the output '{value.name}': {why}") from None


def _write(b: Builder, op: Op, forms: Mapping[str, Form]) -> None:
    where = f" ({op.scope})" if op.scope else ""
    what = f"engine 'ncnn' has no form for operator '{op.op}'{where}"
    form = forms.get(op.op)
    if form is None:
        raise EngineError(what)
    try:
        for v in op.outputs:
            require(all(isinstance(d, int) for d in v.shape), "a size that depends on data")
            require(v.dtype == np.float32, f"a result of {v.dtype}")
        made = form(b, op)
    except Unsupported as why:
        raise EngineError(f"{what}: {why}") from None
    b.blobs.update((v, name) for v, name in zip(op.outputs, made) if name)


_COPYING = ("Convolution", "Pooling", "InnerProduct", "Permute")
"""Layers that read a blob plane by plane wherever its planes lie. ConvolutionDepthWise does not: ncnn cuts its
groups out of the blob as if each plane began on a multiple of 16 bytes, which a caller's arrays do not promise."""


def _only_copied(b: Builder, blob: str) -> bool:
    """Whether a blob is read by layers that neither write where they read nor pass on the memory."""
    readers = [y for y in b.layers if blob in y.inputs]
    return len(readers) == 1 and readers[0].type in _COPYING


def _split(b: Builder, outputs: Sequence[str]) -> list[str]:
    """Let every blob be read once, by Split layers where it is read more often; gives the names of the outputs."""
    uses: dict[str, int] = {}
    for name in [*(i for y in b.layers for i in y.inputs), *outputs]:
        uses[name] = uses.get(name, 0) + 1
    free: dict[str, list[str]] = {}
    layers: list[Layer] = []

    def take(name: str) -> str:
        return free[name].pop() if name in free else name

    for layer in b.layers:
        layer.inputs = [take(i) for i in layer.inputs]
        layers.append(layer)
        for name in layer.outputs:
            if uses.get(name, 0) > 1:
                free[name] = [f"{name}_{i}" for i in range(uses[name])]
                b.shapes.update(dict.fromkeys(free[name], b.shapes[name]))
                layers.append(Layer("Split", [name], list(free[name]), {}))
    b.layers = layers
    return [take(name) for name in outputs]


def _text(b: Builder) -> str:
    blobs = sum(len(y.outputs) for y in b.layers)
    lines = [str(_MAGIC), f"{len(b.layers)} {blobs}"]
    for i, y in enumerate(b.layers):
        hints = [n for name in y.outputs for n in _hint(b.shapes[name])]
        params = " ".join(_param(k, v) for k, v in [*y.params.items(), (30, hints)])
        lines.append(
            f"{y.type} l{i} {len(y.inputs)} {len(y.outputs)} {' '.join([*y.inputs, *y.outputs])} {params}"
        )
    return "\n".join(lines) + "\n"


def _hint(shape: Shape) -> list[int]:
    """A shape as parameter 30 gives it, by which ncnn picks its algorithms: rank, w, h, c."""
    if len(shape) == RANK:
        return [0, 0, 0, 0]
    sizes = [*shape[::-1], 1, 1]
    return [len(shape), *sizes[:3]]


def _param(key: int, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"{-23300 - key}={len(value)}" + "".join(f",{_number(v)}" for v in value)
    return f"{key}={_number(value)}"


def _number(value: Any) -> str:
    """An integer, or a float as the shortest decimal that gives it back, always with a point."""
    return f"{float(value):.9e}" if isinstance(value, (float, np.floating)) else str(int(value))


def raw(array: Array) -> list[Array]:
    """Weights of a layer that could have them quantized."""
    return [_RAW, np.ascontiguousarray(array, np.float32)]
