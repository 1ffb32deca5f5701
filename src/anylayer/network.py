"""Network, Node, TensorType: what a reader makes of a file. Plain data; no layer's behaviour is here.

A network is a list of nodes in the order they compute. Values are named once: where a Caffe file rewrites a
blob in place, the blob's last version keeps its name and each earlier one is called `blob@layer` (as layer
`layer` left it); a network input always keeps its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from anylayer.errors import NetworkError, need

Array = NDArray[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """The shape and dtype of a value, printed as `float32[1, 3, 224, 224]`."""

    shape: Shape
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))

    @classmethod
    def of(cls, shape: Any, dtype: DTypeLike = np.float32) -> TensorType:
        """From anything that lists dimensions and anything that names a dtype."""
        return cls(tuple(shape), np.dtype(dtype))

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(size_text, self.shape))}]"


ABSENT = TensorType((), np.dtype("V"))
"""The type of an optional input that is left out: its name is "", and the layer is given None."""


def open_text(shape: tuple[int | None, ...]) -> str:
    """A shape with open sizes as it is printed: [?, 224, 224, 3]."""
    return f"[{', '.join('?' if d is None else str(d) for d in shape)}]"


def size_text(size: Any) -> str:
    """A size as it is printed: a number, or "<=200" for one that depends on data."""
    return f"<={size.maximum}" if hasattr(size, "maximum") else str(size)


class Word(str):
    """A bare word of a text file (an enum's name), as opposed to a quoted string."""

    __slots__ = ()


class Flag(int):
    """`true` or `false` as a text file spells it: an int that also equals its spelling.

    OpenCV hands a Python layer the *string* `'true'` for a field it does not know and the int 1 for one it
    does; a class written for either works with a Flag.

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
        """As str.lower, for `params['flag'].lower() == 'true'`."""
        return str(self)


@dataclass(slots=True)
class Node:
    """One layer of a network: an instance of a layer type.

    `params` is what the file says, nested as the file nests it; a field that occurs once is a value (int,
    float, str, Word, Flag or dict), one that occurs more often is a list. For Caffe its keys are the
    parameter messages: `{"convolution_param": {"num_output": 64, "kernel_size": 3}}`; for TensorFlow it is
    `{"attr": {...}}`, for Keras `{"config": {...}}`, for ONNX `{"attribute": {...}}`, for OpenVINO
    `{"data": {...}}`. An optional input that is left out has the name "".
    `lines` maps a dotted path into params ("convolution_param.kernel_size") to its line in the file.
    `defaults` are values that a schema given with the network (--proto) declares for absent fields.
    `layout` is the order of axes of its values of rank 4: "NHWC", "NCHW", or "" where the file does not say it;
    "mixed" where layers around it differ. `opencv_layout` is the order in which OpenCV gives them to a layer's
    class, where that is not the file's.
    `place` leads an error message: "deploy.prototxt:41: layer 'conv1' (Convolution)".
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
    phase: str = "TEST"
    loss_weights: list[float] = field(default_factory=list)
    layout: str = ""
    opencv_layout: str = ""
    domain: str = ""
    version: int = 0


@dataclass(slots=True)
class Preprocess:
    """How a network's file says its input is made of an image: resized to `size`, cropped, (image - mean) * scale.

    `mean` is one value per channel, an array (C, H, W), or None; `size` is (height, width), or None where the
    file does not say; `source` names where it comes from.
    """

    scale: float = 1.0
    mean: Array | None = None
    size: tuple[int, int] | None = None
    crop: int = 0
    mean_file: str = ""
    source: str = ""
    gray: bool = False


@dataclass(slots=True)
class Network:
    """Nodes in computing order. `inputs` maps a value to its type, None where the file does not say.

    `outputs` maps each public output name to the value it is; `blobs` every name the file knows a value by
    to the value's own name (the last version of a blob rewritten in place).
    `notes` are what the reader did that its user may want to know.
    `dtype` is the one dtype every value has, in a format that knows only one (Caffe: float32).
    `open` holds, for an input whose file leaves sizes open, its shape with None for each such size; where only
    the first (the batch) is open, `inputs` has 1 for it. `dtypes` has the dtype of an input whose type is None;
    float32 where it is silent. `layouts` says of an input that takes pictures how they
    lie ("NHWC"); NCHW where it is silent. `fields` are the fields of a layer (layer.Field) that a schema given
    with the network (--proto) declares, by name. `declared` holds the types that the file states for values of
    layers (ONNX: value_info; OpenVINO: ports), as far as it states them; they hold for the inputs' types in the
    file.
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
    dtype: np.dtype[Any] | None = None
    open: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    dtypes: dict[str, np.dtype[Any]] = field(default_factory=dict)
    layouts: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    declared: dict[str, TensorType] = field(default_factory=dict)


@dataclass(slots=True)
class Subgraph:
    """A network inside a node (ONNX: the branches of If, the body of Loop and Scan), a value of its params.

    Its inputs are those it is called with and then the `captured` ones: values of the network around it, which
    are the node's last inputs, one subgraph's after the other's.
    """

    network: Network
    captured: list[str]

    def __str__(self) -> str:
        return f"<{len(self.network.nodes)} nodes>"


def need_produced(network: Network) -> None:
    """Raise NetworkError for a value that is read, or is an output, and that no input or earlier node produces;
    and for an input or output without a name."""
    for name in [*network.inputs, *network.outputs]:
        need(name, "an input or output of the network has no name", NetworkError)
    known = {"", *network.inputs}
    for node in network.nodes:
        for name in node.inputs:
            if name not in known:
                raise NetworkError(f"reads '{name}', which no layer before it produces", node.place)
        known.update(node.outputs)
    for name, value in network.outputs.items():
        need(value in known, f"output '{name}' is '{value}', which no layer produces", NetworkError)


def as_written(value: Any) -> float:
    """Return a float32 as the shortest decimal number that means it: -0.3, not -0.30000001192092896."""
    return float(str(np.float32(value)))
