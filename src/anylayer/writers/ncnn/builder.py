"""Build an ncnn network from a graph: the text of its .param file and its weights in the order of the .bin file.

ncnn's blobs have one to four axes and no axis for the batch. A blob is row-major data with a shape. So a value
keeps the shape in which its operator's layer produced it, and is reshaped only where a layer needs another shape.
Sources: https://github.com/Tencent/ncnn/wiki/param-and-model-file-structure (formats), and ncnn's
docs/developer-guide/operators.md (layers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from anylayer.errors import EngineError
from anylayer.graph import Dim, Graph, Op, Value
from anylayer.graph.intervals import Intervals
from anylayer.graph.sizes import is_static
from anylayer.network import Array, Shape
from anylayer.writers._target import Consumers, NotInTarget, present, require

_MAGIC = 7767517
RANK = 4
"""The largest number of axes of a blob."""
_FLOAT32_TAG = np.zeros(1, np.int32)
"""The word before weights that could be quantized: 0 stands for float32."""


_AT_ANY_SIZE = (
    "Conv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "Relu",
    "LeakyRelu",
    "Sigmoid",
    "Concat",
    "Slice",
)
"""The operators whose layers work for maps of every size."""

NcnnParams = Mapping[int, "int | float | str | Sequence[int] | Sequence[float]"]


@dataclass(slots=True)
class NcnnLayer:
    """One line of the .param file."""

    type: str
    inputs: list[str]
    outputs: list[str]
    params: NcnnParams
    weights: list[Array] = field(default_factory=list)


@dataclass(slots=True)
class NcnnModel:
    """An ncnn network.

    `text` is the .param file, `weights` the .bin file in pieces. `inputs` and `outputs` are names of blobs with
    their shapes; None stands for an input without consumers. `changed_in_place` says for each input whether ncnn
    may write to its memory.
    """

    text: str
    weights: list[Array]
    inputs: list[tuple[str, Shape] | None]
    outputs: list[tuple[str, Shape]]
    changed_in_place: list[bool]


class NcnnBuilder:
    """A network of ncnn under construction, to which lowerings of operators add layers.

    `blobs` maps a value to the blob that holds it, and `shapes` a blob to its shape. `fused` are operators that
    the layer of an earlier operator computes.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.layers: list[NcnnLayer] = []
        self.shapes: dict[str, Shape] = {}
        self.blobs: dict[Value, str] = {}
        self.fused: set[Op] = set()
        self._reshaped: dict[tuple[str, Shape], str] = {}
        self.consumers = Consumers(graph.ops, graph.outputs)

    @property
    def varies(self) -> bool:
        """Whether sizes of the inputs are open."""
        return not all(is_static(v.shape) for v in self.graph.inputs)

    @cached_property
    def intervals(self) -> Intervals:
        """Return the intervals of the graph's values."""
        return Intervals(self.graph.producers).of_all(self.graph.ops)

    def add_many(
        self,
        type_: str,
        inputs: Sequence[str],
        shapes: Sequence[Shape],
        params: NcnnParams | None = None,
        weights: Sequence[Array] = (),
    ) -> list[str]:
        """Append a layer with outputs of these shapes and return their names. `params` maps ids to values."""
        for shape in shapes:
            _require_rank(shape)
            require(all(isinstance(d, Dim) or d > 0 for d in shape), f"the shape {list(shape)}")
        for param in (params or {}).values():
            values = param if isinstance(param, Sequence) else [param]
            require(not any(isinstance(n, Dim) for n in values), "a size that varies")
        names = [f"b{len(self.shapes) + i}" for i in range(len(shapes))]
        self.shapes.update(zip(names, shapes))
        self.layers.append(NcnnLayer(type_, list(inputs), names, dict(params or {}), list(weights)))
        return names

    def add(
        self,
        type_: str,
        inputs: Sequence[str],
        shape: Shape,
        params: NcnnParams | None = None,
        weights: Sequence[Array] = (),
    ) -> str:
        """Append a layer with one output and return its name."""
        return self.add_many(type_, inputs, [shape], params, weights)[0]

    def blob(self, value: Value | None) -> str:
        """Return the blob that holds a value, in whatever shape it has. A constant becomes a blob."""
        value = present(value)
        if value not in self.blobs:
            require(value.const is not None, "an input that no operator produces")
            array = np.asarray(value.const)
            require(array.dtype == np.float32, f"a constant of {array.dtype}")
            self.blobs[value] = self.constant(array, blob_shape(value.shape))
        return self.blobs[value]

    def constant(self, array: Array, shape: Shape) -> str:
        """Add a blob with constant data, row-major, in the given shape."""
        data = np.ascontiguousarray(array, np.float32).reshape(-1)
        return self.add("MemoryData", [], shape, shape_params(shape), [data])

    def reshape(self, blob: str, shape: Shape) -> str:
        """Return a blob with the same data in another shape."""
        if self.shapes[blob] == shape:
            return blob
        reshaped = self._reshaped.get((blob, shape))
        if reshaped is None:
            reshaped = self._reshaped[blob, shape] = self.add("Reshape", [blob], shape, shape_params(shape))
        return reshaped

    def blob_of_shape(self, value: Value | None, shape: Shape) -> str:
        """Return the blob that holds a value, in the given shape."""
        return self.reshape(self.blob(value), shape)


def _require_rank(shape: Shape) -> None:
    require(1 <= len(shape) <= RANK, f"{len(shape)} axes, at most {RANK} are possible")


def without_batch(shape: Sequence[int]) -> Shape:
    """Return a shape without its first axis, the batch, if that has size 1 and is not the only axis."""
    shape = tuple(shape)
    if len(shape) > 1 and shape[0] == 1:
        return shape[1:]
    return shape or (1,)


def blob_shape(shape: Sequence[int]) -> Shape:
    """Return the shape in which a blob holds a value: without the batch, flat for more than four axes."""
    sample = without_batch(shape)
    return sample if len(sample) <= RANK else (math.prod(sample),)


def shape_params(shape: Shape) -> dict[int, int]:
    """Return a shape as ncnn's parameters 0 (w), 1 (h), 11 (d) and 2 (c)."""
    _require_rank(shape)
    keys = {1: (0,), 2: (1, 0), 3: (2, 1, 0), 4: (2, 11, 1, 0)}[len(shape)]
    return dict(sorted(zip(keys, shape)))


NcnnLowering = Callable[[NcnnBuilder, Op], "list[str]"]
"""A function that adds the layers of one operator and returns the blobs of its outputs. "" stands for an output
whose blob the function has stored itself."""


def lower_graph(graph: Graph, lowerings: Mapping[str, NcnnLowering]) -> NcnnModel:
    """Return the graph as an ncnn network. `lowerings` maps ONNX operators to the functions that add their layers.

    Raises EngineError, which names the first operator that cannot be expressed.
    """
    b = NcnnBuilder(graph)
    inputs: list[tuple[str, Shape] | None] = []
    for value in graph.inputs:
        inputs.append(_input(b, value))
    for op in graph.ops:
        if op not in b.fused:
            _lower(b, op, lowerings)
    outputs = [_output(b, v) for v in graph.outputs]
    changed = [i is not None and not _is_only_read(b, i[0]) for i in inputs]
    outputs = _insert_splits(b, outputs)
    shaped = [(name, b.shapes[name]) for name in outputs]
    return NcnnModel(_text(b), [w for y in b.layers for w in y.weights], inputs, shaped, changed)


def _input(b: NcnnBuilder, value: Value) -> tuple[str, Shape] | None:
    """Add an input of the graph and return its blob and shape; None for an input without consumers."""
    if value not in b.consumers:
        return None
    varies = not is_static(value.shape)
    maps = len(value.shape) == RANK and value.shape[0] == 1
    if (
        value.dtype != np.float32
        or (varies and not maps)
        or not all(isinstance(d, Dim) or d > 0 for d in value.shape)
    ):
        raise EngineError(
            "engine 'ncnn' accepts only float32 inputs of static size, or of shape (1, channels, height, width), "
            f"got '{value.name}' {value.type}"
        )
    shape = blob_shape(value.shape)
    blob = b.blobs[value] = b.add("Input", [], shape, None if varies else shape_params(shape))
    return blob, shape


def _output(b: NcnnBuilder, value: Value) -> str:
    try:
        return b.blob(value)
    except NotInTarget as why:
        raise EngineError(f"engine 'ncnn' cannot compute output '{value.name}': {why}") from None


def _lower(b: NcnnBuilder, op: Op, lowerings: Mapping[str, NcnnLowering]) -> None:
    where = f" ({op.scope})" if op.scope else ""
    what = f"engine 'ncnn' cannot express operator '{op.op}'{where}"
    lowering = lowerings.get(op.op)
    if b.varies and all(v.dtype == np.int64 for v in op.outputs):
        return  # arithmetic of sizes: layers do not need it, or are refused because it has no blob
    if lowering is None:
        raise EngineError(what)
    try:
        for v in op.outputs:
            varies = not is_static(v.shape)
            require(not varies or (b.varies and op.op in _AT_ANY_SIZE), "a size that varies or depends on data")
            require(v.dtype == np.float32, f"a result of {v.dtype}")
        blobs = lowering(b, op)
    except NotInTarget as why:
        raise EngineError(f"{what}: {why}") from None
    b.blobs.update((v, name) for v, name in zip(op.outputs, blobs) if name)


_READ_ONLY = ("Convolution", "Pooling", "InnerProduct", "Permute")
"""Layers that accept any memory as input and do not write to it. ConvolutionDepthWise is not one of them: ncnn
slices its groups as if each plane began at a multiple of 16 bytes, which a caller's arrays do not guarantee."""


def _is_only_read(b: NcnnBuilder, blob: str) -> bool:
    """Return whether a blob has one consumer, which neither writes to its memory nor passes it on."""
    consumers = [y for y in b.layers if blob in y.inputs]
    return len(consumers) == 1 and consumers[0].type in _READ_ONLY


def _insert_splits(b: NcnnBuilder, outputs: Sequence[str]) -> list[str]:
    """Insert Split layers so that every blob has one consumer. Return the names of the outputs after that."""
    uses: dict[str, int] = {}
    for name in [*(i for y in b.layers for i in y.inputs), *outputs]:
        uses[name] = uses.get(name, 0) + 1
    copies: dict[str, list[str]] = {}
    layers: list[NcnnLayer] = []

    def take(name: str) -> str:
        return copies[name].pop() if name in copies else name

    for layer in b.layers:
        layer.inputs = [take(i) for i in layer.inputs]
        layers.append(layer)
        for name in layer.outputs:
            if uses.get(name, 0) > 1:
                copies[name] = [f"{name}_{i}" for i in range(uses[name])]
                b.shapes.update(dict.fromkeys(copies[name], b.shapes[name]))
                layers.append(NcnnLayer("Split", [name], list(copies[name]), {}))
    b.layers = layers
    return [take(name) for name in outputs]


def _text(b: NcnnBuilder) -> str:
    """Return the .param file."""
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
    """Return parameter 30, a shape from which ncnn selects its algorithms: rank, w, h, c."""
    if len(shape) == RANK or not is_static(shape):
        return [0, 0, 0, 0]
    sizes = [*shape[::-1], 1, 1]
    return [len(shape), *sizes[:3]]


def _param(key: int, value: int | float | str | Sequence[int] | Sequence[float]) -> str:
    """Return a parameter as the .param file spells it: "key=value", or an array with its length."""
    if isinstance(value, str):
        return f'{key}="{value}"'
    if isinstance(value, (int, float, np.number)):
        return f"{key}={_number(value)}"
    return f"{-23300 - key}={len(value)}" + "".join(f",{_number(v)}" for v in value)


def _number(value: float) -> str:
    """Return a number as text: an integer, or a float with 10 significant digits."""
    return f"{float(value):.9e}" if isinstance(value, (float, np.floating)) else str(int(value))


def float_weights(array: Array) -> list[Array]:
    """Return the weights of a layer whose weights could be quantized: the tag for float32 and the elements."""
    return [_FLOAT32_TAG, np.ascontiguousarray(array, np.float32)]
