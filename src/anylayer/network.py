"""Network, Node and TensorType: the result of reading a file. Plain data, without the behaviour of layers.

A network is a list of nodes in computing order. Each value has one name: where a Caffe file rewrites a blob in
place, the last version of the blob keeps its name, and each earlier version is called `blob@layer` (as layer
`layer` left it). A network input always keeps its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from anylayer.errors import FileError, InputError, NetworkError, at, need, wording

Array = NDArray[Any]
DType = np.dtype[Any]
Function = Callable[..., Any]
Shape = tuple[int, ...]
Steps = tuple[Array, Array, int]
"""Of a quantized value: its scales and zero points, one of each or one per index of an axis, and this axis."""
MAX_VALUES = 2**31 - 1
"""Values of one array, and so the largest size of an axis: engines and files count in int32."""
MAX_RANK = 32
"""Axes of an array: the limit of NumPy 1 and of Caffe (blob.hpp kMaxBlobAxes)."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The shape and dtype of a value, printed as `float32[1, 3, 224, 224]`.

    elements: of integers that are sizes of other values, the numbers and dynamic sizes, in C order, where known.
    """

    shape: Shape
    dtype: DType = field(default_factory=lambda: np.dtype(np.float32))
    elements: tuple[Any, ...] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, shape: Any, dtype: DTypeLike = np.float32) -> TensorType:
        """Return the type with this shape (any iterable of sizes) and this dtype (anything that NumPy accepts)."""
        return cls(tuple(shape), np.dtype(dtype))

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(size_text, self.shape))}]"


ABSENT = TensorType((), np.dtype("V"))
"""The type of an optional input that is absent: its name is "", and the layer gets None."""


def open_text(shape: tuple[int | None, ...]) -> str:
    """Return a shape with open sizes (None) as text: "[?, 224, 224, 3]"."""
    return f"[{', '.join('?' if d is None else str(d) for d in shape)}]"


def shapes_wording(
    shapes: Mapping[str, tuple[int | None, ...] | None], conditions: ChecksSizes | None = None
) -> str:
    """Return how to give the shapes of inputs: `shapes={'data': (1, 3, 224, 224)}`, or --shape data=1,3,224,224.

    shapes: the sizes in the file by input, None for open sizes, and for an input without a shape in the file. They
    get example sizes: the next ones that fulfil the file's `conditions`, where a few steps lead to some.
    """
    is_batched = any(shape and shape[0] is None for shape in shapes.values())
    usual = {name: _example(shape, is_batched) for name, shape in shapes.items()}
    examples = next(filter(partial(_fulfils, conditions), _larger(usual, shapes)), usual)
    options = (f"--shape {name}={','.join(map(str, shape))}" for name, shape in examples.items())
    return wording(f"shapes={examples}", " ".join(options))


def _larger(
    sizes: Mapping[str, Shape], shapes: Mapping[str, tuple[int | None, ...] | None]
) -> Iterator[dict[str, Shape]]:
    """Yield the sizes, and then with 1, 2 ... more for each size that is None in `shapes`."""
    for more in range(_TRIED):
        yield {
            name: tuple(d + more if size is None else d for d, size in zip(s, shapes[name] or [None] * len(s)))
            for name, s in sizes.items()
        }


def _fulfils(conditions: ChecksSizes | None, sizes: Mapping[str, Shape]) -> bool:
    try:
        if conditions is not None:
            conditions.check({name: TensorType.of(shape) for name, shape in sizes.items()})
    except InputError:
        return False
    return True


_TRIED = 64
"""The number of example sizes of which one may fulfil the conditions of a file."""


def is_channels_last(shape: Sequence[int | None]) -> bool:
    """Return whether a shape is that of channels-last images, with 1, 3 or 4 channels."""
    return len(shape) == 4 and shape[3] in (1, 3, 4)


def _example(shape: tuple[int | None, ...] | None, is_batched: bool) -> tuple[int, ...]:
    """Return example sizes: on 4 axes those of an image, channels-last if the last one is 1, 3 or 4.

    is_batched: the file leaves the batch size open. A recurrent state has it on its second axis: (2, N, 128).
    """
    if shape is None or (len(shape) == 4 and (shape[1] is not None or not is_channels_last(shape))):
        usual: tuple[int, ...] = (1, 3, 224, 224)
    elif len(shape) == 4:
        usual = (1, 224, 224, 3)
    else:
        usual = (1, *[1 if is_batched and len(shape) == 3 and shape[0] else 16], *[16] * len(shape))
    return usual if shape is None else tuple(u if size is None else size for u, size in zip(usual, shape))


def size_text(size: Any) -> str:
    """Return a size as text: a number, or "<=200" for a dynamic size."""
    return f"<={size.maximum}" if hasattr(size, "maximum") else str(size)


class Word(str):
    """An unquoted word of a text file (the name of an enum's value), as opposed to a quoted string."""

    __slots__ = ()


class Flag(int):
    """`true` or `false` of a text file: an int that also equals its text.

    OpenCV gives a Python layer the string `'true'` for a field that it does not know, and the int 1 for one that
    it knows. A class that was written for either works with a Flag.

    >>> Flag(True) == True, Flag(True) == "true", Flag(False) == "true", f"{Flag(False)}"
    (True, True, False, 'false')
    """

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == other.lower() or str(int(self)) == other
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(bool(self))

    def __str__(self) -> str:
        return "true" if self else "false"

    __repr__ = __str__

    def lower(self) -> str:
        """Return the text, as str.lower does, for `params['flag'].lower() == 'true'`."""
        return str(self)


@dataclass(slots=True)
class Node:
    """One layer of a network: an instance of a layer type.

    `inputs` and `outputs` are names of values; an optional input that is absent has the name "". `params` are
    the file's, nested as in the file: a field that occurs once is a value (int, float, str, Word, Flag or
    dict), and one that occurs several times is a list. For Caffe the keys are the parameter messages:
    `{"convolution_param": {"num_output": 64, "kernel_size": 3}}`; for TensorFlow it is `{"attr": {...}}`, for
    Keras `{"config": {...}}`, for ONNX `{"attribute": {...}}`, for OpenVINO `{"data": {...}}`. `blobs` are the
    weights, and `blob_names` their names, where the file names them. `lines` maps a dotted path in params
    ("convolution_param.kernel_size") to its line in the file, and `texts` maps one to the file's text of a value
    that Python spells differently ("0.10"); a key without a dot is the name of an attribute of an IR of 2018.
    `defaults` are values that a schema given with the network (--proto) declares for absent fields. `in_place`
    says that the file overwrites input 0. `settings` are the layer's fields besides `params` that change what it
    computes, as the file spells them: for Caffe {"phase": "TRAIN"} and {"loss_weight": [1.0]}; for TFLite "steps",
    the Steps of its inputs, of its outputs and of its blobs. `layout` is the order of axes of the node's values of
    rank 4: "NHWC", "NCHW", "" where the file does not say it, or "mixed" where the layers around it differ.
    `opencv_layout` is the order in which OpenCV gives them to a layer's class, where that is not the file's.
    `domain` and `version` are those of the operator set. `place` leads error messages: "deploy.prototxt:41: layer
    'conv1' (Convolution)".
    """

    name: str
    type: str
    inputs: list[str]
    outputs: list[str]
    params: dict[str, Any] = field(default_factory=dict)
    blobs: list[Array] = field(default_factory=list)
    place: str = ""
    lines: dict[str, int] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    in_place: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    layout: str = ""
    opencv_layout: str = ""
    domain: str = ""
    version: int = 0
    blob_names: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Preprocess:
    """How an input is computed from an image, according to the network's file: resize to `size`, crop, then
    (image - mean) * scale.

    `scale` is one factor, or one per channel. `mean` is one value per channel, an array (C, H, W), or None.
    `size` is (height, width), or None where the file does not give it. `crop` is the side of the cropped square in
    pixels, 0 for none. `mean_file` is the file with the mean, as the network names it. `source` says which part of
    the file this is from. `gray` says that the image has one channel, and
    `letterbox` that its aspect ratio is kept, between gray bars.
    """

    scale: float | tuple[float, ...] = 1.0
    mean: Array | None = None
    size: tuple[int, int] | None = None
    crop: int = 0
    mean_file: str = ""
    source: str = ""
    gray: bool = False
    letterbox: bool = False


class ChecksSizes(Protocol):
    """The conditions that a file states on the sizes of its inputs, and the names of these sizes."""

    @property
    def shapes(self) -> Mapping[str, Sequence[str]]: ...

    @property
    def conditions(self) -> Sequence[str]: ...

    def check(self, types: Mapping[str, TensorType | None]) -> None:
        """Raise InputError for shapes that do not fulfil the conditions."""

    def conditions_on(self, shapes: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
        """Return the conditions in the symbols of other shapes of the inputs."""


@dataclass(slots=True)
class Network:
    """A network as a reader returns it.

    `format` is the reader's name. `inputs` maps the name of each input to its type, None where the file does not
    give the shape. `nodes` are in computing order. `outputs` maps each public output name to the value that it
    stands for. `blobs` maps every name that the file uses for a value to the value's own name (the last version of
    a blob that is rewritten in place). `dialect` is the fork of Caffe, where it is known. `source` and `weights`
    are the files. `notes` are for the user. `preprocess` says how inputs are computed from images. `dtype` is the
    dtype of every value, in a format that has only one (Caffe: float32).

    `open` holds the shapes of inputs whose sizes the file leaves open, with None for each such size. Where only
    the first size (the batch) is open, `inputs` has 1 for it. `dtypes` holds the dtypes of inputs, also of those
    whose type is None; float32 by default. `layouts` holds the order of axes of inputs that take images, "NHWC" or
    "NCHW"; NCHW by default. `channel_orders` holds the order of channels of inputs whose file states it, "RGB" or
    "BGR". `labels` holds the names of the classes of outputs whose file states them. `initial` holds the values of
    inputs that may be left out: the state before the first run. `fields` are the fields of a layer (layer.Field)
    that a schema given with the network (--proto) declares, by name. `declared` holds the types that the file
    states for values of layers (ONNX: value_info; OpenVINO: ports). They hold for the file's own input types.
    `sizes` checks the shapes of the inputs, where the file states conditions on its open sizes. `weights_file`
    says what kind of file holds the weights of such networks, for messages.
    """

    name: str
    format: str
    inputs: dict[str, TensorType | None]
    nodes: list[Node]
    outputs: dict[str, str]
    blobs: dict[str, str] = field(default_factory=dict)
    dialect: str | None = None
    source: str = ""
    weights: str = ""
    notes: list[str] = field(default_factory=list)
    preprocess: dict[str, Preprocess] = field(default_factory=dict)
    dtype: DType | None = None
    open: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    dtypes: dict[str, DType] = field(default_factory=dict)
    layouts: dict[str, str] = field(default_factory=dict)
    channel_orders: dict[str, str] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)
    initial: dict[str, Array] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    declared: dict[str, TensorType] = field(default_factory=dict)
    sizes: ChecksSizes | None = None
    weights_file: str = "weights file"

    @property
    def files(self) -> str:
        """The arguments of a command that name the network's files."""
        return " ".join(filter(None, (self.source, self.weights)))

    def input_dtype(self, name: str) -> DType:
        """Return the dtype of an input, also of one whose type is None."""
        kind = self.inputs[name]
        return kind.dtype if kind is not None else self.dtypes.get(name, np.dtype(np.float32))

    def add_input(
        self, name: str, sizes: Sequence[int | None] | None, dtype: Any, channels_last: bool = False
    ) -> None:
        """Add an input. `sizes` has None for each size that the file leaves open, and is None without a shape.

        channels_last: whether images are channels-last in the file's format.
        """
        self.inputs[name], self.dtypes[name] = None, np.dtype(dtype)
        if sizes is not None and None in sizes:
            self.open[name] = tuple(sizes)
        if sizes is not None and None not in sizes[1:]:
            self.inputs[name] = TensorType.of([1 if d is None else d for d in sizes], dtype)
        if sizes is not None and channels_last and is_channels_last(sizes):
            self.layouts[name] = "NHWC"

    def add_channel_orders(self, text: str) -> None:
        """Add the orders that a file's metadata state (see CHANNEL_ORDERS). Damaged text is ignored."""
        try:
            stated = json.loads(text)
        except (ValueError, RecursionError):
            return
        for name, order in stated.items() if isinstance(stated, dict) else ():
            if name in self.inputs and order in ("RGB", "BGR"):
                self.channel_orders[name] = order


def part_of(
    network: Network, inputs: Mapping[str, TensorType], nodes: list[Node], outputs: dict[str, str]
) -> Network:
    """Return some nodes of a network as a network, without what the file says about the whole one's inputs."""
    return replace(
        network,
        inputs={**inputs},
        nodes=nodes,
        outputs=outputs,
        open={},
        layouts={},
        channel_orders={},
        labels={},
        declared={},
        sizes=None,
    )


def nodes_behind(nodes: Sequence[Node], values: Iterable[str]) -> list[Node]:
    """Return the nodes, in computing order, that some values depend on."""
    needed, chosen = set(values), []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            chosen.append(node)
    return chosen[::-1]


CHANNEL_ORDERS = "anylayer.channel_orders"
"""The key in a file's metadata of Network.channel_orders, as JSON."""


@dataclass(slots=True)
class Subgraph:
    """A network inside a node, as a value of its params (ONNX: the branches of If, the bodies of Loop and Scan).

    Its inputs are those that the node's operator passes to it, followed by the captured ones: values of the
    surrounding network, which are inputs of the node at the positions `captured`, after the operator's own.
    """

    network: Network
    captured: list[int]

    def __str__(self) -> str:
        return f"<{len(self.network.nodes)} nodes>"


def need_outputs(network: Network, outputs: Mapping[str, str]) -> None:
    """Raise InputError where there are no outputs to compute, with the file and notes on layers left out."""
    with at(network.source):
        need(outputs, "; ".join(["the network has no outputs", *network.notes]), InputError)


def need_produced(network: Network) -> None:
    """Raise NetworkError for a value that is read or is an output although no input or earlier node produces it,
    and for an input or output without a name."""
    for name in [*network.inputs, *network.outputs]:
        need(name, "an input or output of the network has no name", NetworkError)
    produced = {"", *network.inputs}
    for node in network.nodes:
        for name in node.inputs:
            if name not in produced:
                raise NetworkError(f"reads '{name}', which no layer before it produces", node.place)
        produced.update(node.outputs)
    for name, value in network.outputs.items():
        need(value in produced, f"output '{name}' is '{value}', which no layer produces", NetworkError)


def as_written(value: Any) -> float:
    """Return a float32 as the shortest decimal number that rounds to it: -0.3, not -0.30000001192092896."""
    return float(str(np.float32(value)))


def reshaped(values: Array, shape: Shape) -> Array:
    """Return the values in the shape that a file states. Raise FileError where no array has this shape."""
    need(len(shape) <= MAX_RANK, f"has {len(shape)} axes; the limit is {MAX_RANK}", FileError)
    try:
        return values.reshape(shape)
    except ValueError as error:  # for example (0, 2**62, 2**62)
        raise FileError(f"no array has shape {shape}: {error}") from None
