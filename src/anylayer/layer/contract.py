"""Layer: the typed form of a layer class, which built-in layers use and a user's layer may."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import need
from anylayer.layer.fields import Enum, Message, field
from anylayer.network import Array, Node, Shape, TensorType

Line = tuple[Fraction, Fraction]
"""x -> a*x + b along one axis."""
Map = tuple[Line, Line]
"""The lines of height and width."""

MAX_WEIGHT_VALUES = 1 << 28
"""Values per weight that no file holds. A file may claim any number; Caffe's largest layers have 2**27."""

IDENTITY: Map = ((Fraction(1), Fraction(0)), (Fraction(1), Fraction(0)))


class Filler(Message):
    """Caffe's FillerParameter: the values a weight has before training."""

    type: str = field(1, "string", "constant")
    value: float = field(2, "float", 0.0)
    min: float = field(3, "float", 0.0)
    max: float = field(4, "float", 1.0)
    mean: float = field(5, "float", 0.0)
    std: float = field(6, "float", 1.0)
    sparse: int = field(7, "int32", -1)
    variance_norm: str = field(8, Enum("FAN_IN", "FAN_OUT", "AVERAGE"), "FAN_IN")

    def fill(self, shape: Shape) -> Array | None:
        """The values, where the filler is deterministic; None where it is random."""
        if self.type == "constant":
            return np.broadcast_to(np.float32(self.value), shape)
        if self.type == "bilinear":
            need(
                len(shape) == 4 and shape[2] == shape[3],
                f"a bilinear filler needs a square 2-D kernel, got {shape}",
            )
            k = shape[3]
            f = -(-k // 2)
            c = (2 * f - 1 - f % 2) / (2.0 * f)
            line = 1 - np.abs(np.arange(k) / f - c)
            return np.broadcast_to(np.outer(line, line), shape).astype(np.float32)
        return None


class Layer(Message):
    """A layer type, defined by its `forward`.

    A subclass declares its parameters as fields and names the message they stand in:

        @layer("ShuffleChannel")
        class ShuffleChannel(Layer):
            \"\"\"Deal the channels of `group` groups out in turn (ShuffleNet, arXiv 1707.01083).\"\"\"

            message = "shuffle_channel_param"
            group: int = field(1, "uint32", 1, doc="number of groups; must divide the channels")

            def forward(self, x):
                n, c, *rest = x.shape
                need(c % self.group == 0, f"group={self.group} does not divide {c} channels")
                return x.reshape(n, self.group, c // self.group, *rest).swapaxes(1, 2).reshape(x.shape)

    `forward` takes one array an input and returns an array, or a tuple or list of one array an output. It must
    not write to its inputs. One instance serves one set of input shapes.

    Beside its fields an instance has: `name`, `type`, `dialect` (or None), `outputs` (how many are asked for),
    `in_place` (whether the file rewrites input 0), `phase`, `loss_weights`; and `blob(...)` for its weights.
    """

    message: ClassVar[str] = ""
    """The prototxt message that holds the fields; "" for a layer without parameters."""
    numbers: ClassVar[Mapping[str, int]] = {}
    """LayerParameter's field number of the message: dialect -> number, "" for the common one."""
    also: ClassVar[Mapping[str, type[Message]]] = {}
    """Further messages of the file that the layer reads; each becomes an attribute of its name."""
    role: ClassVar[str] = ""
    """"" computes; "input" and "data" give a network's inputs (data: from training data); "loss" serves training
    and gives way where its labels do; "training" always gives way; "sink" consumes
    without an output; "code" is a program inside the file, never run: a user's class for it is registered under
    the node's own name."""

    modules: ClassVar[Sequence[str]] = ()
    """For a layer that pycaffe runs (type "Python"): the modules whose class of this name it computes."""

    elementwise: ClassVar[bool] = False
    """Whether each output pixel stands where its input pixel stands."""
    aligned: ClassVar[bool] = False
    """Whether a fork of Caffe takes this layer's offset from the network's geometry
    (readers/caffe/alignment.py)."""

    name: str
    type: str
    dialect: str | None
    outputs: int
    in_place: bool
    phase: str
    loss_weights: Sequence[float]
    notes: list[str]
    _blobs: list[Array]
    _taken: int
    _wanted: dict[int, Wanted]

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        """Whether a node with these params (of `message`) and this many inputs and outputs can mean this class.

        Asked only where several classes share a type name and the dialect is not given.
        """
        return all(name in cls.fields for name in values)

    def setup(self) -> None:
        """Check what can be checked on the parameters alone. Called once, after the fields are set."""

    def forward(self, *inputs: Any) -> Any:
        """Compute the outputs: the definition of the layer."""
        raise NotImplementedError

    def prepare(self, node: Node, dialect: str | None) -> None:
        """Take the node's identity, params and blobs (called by `bind`)."""
        self.name, self.type, self.dialect = node.name, node.type, dialect
        self.outputs, self.in_place, self.phase = len(node.outputs), node.in_place, node.phase
        self.loss_weights = node.loss_weights
        self.notes, self._blobs, self._wanted = [], node.blobs, {}
        self._take(self, self.message, node)
        for name, kind in self.also.items():
            message = kind.__new__(kind)
            self._take(message, name, node)
            setattr(self, name, message)
        for name in node.params:
            if name != self.message and name not in self.also:
                self.note(f"{name} has no effect: {node.type} does not read it")
        self.setup()

    def _take(self, target: Message, name: str, node: Node) -> None:
        """Give `target` the values of the node's message `name`."""
        values = node.params.get(name, {}) if name else {}
        need(isinstance(values, Mapping), f"{name} is given {len(values)} times, once is allowed")
        defaults = node.defaults.get(name)
        target.assign(values, dialect=self.dialect, defaults=defaults, message=name, lines=node.lines)

    def input_types(self) -> list[TensorType | None]:
        """For the roles "input" and "data": the type of each output, None where the file does not tell."""
        return [None] * self.outputs

    def coordinates(self) -> Map | None:
        """Where input pixel i stands among the output's pixels, a*i + b for height and width; None: nowhere."""
        return IDENTITY if self.elementwise else None

    def note(self, text: str) -> None:
        """Tell the user something about how this layer was read."""
        if text not in self.notes:
            self.notes.append(text)

    def blob(self, index: int, shape: Shape, filler: Filler | None = None, *, what: str = "weights") -> Array:
        """Weight `index`, checked against `shape`; its filler's values where the file has none.

        A blob of other rank fits when its shape, led by ones, equals the wanted one led by ones (Caffe's
        legacy rule, blob.cpp ShapeEquals). Without a file a random filler leaves zeros and the layer is
        reported as unfilled: such a network can be inspected but not run.
        """
        count = math.prod(shape)
        need(
            bool(self._blobs) or count <= MAX_WEIGHT_VALUES,
            f"blob {index} ({what}) of shape {tuple(shape)} would have {count} values; without a weights file the "
            f"limit is {MAX_WEIGHT_VALUES}",
        )
        wanted = Wanted(tuple(shape), what, filler)
        self._wanted[index] = wanted
        if index < len(self._blobs):
            blob = self._blobs[index]
            need(
                _trimmed(blob.shape) == _trimmed(shape),
                f"blob {index} ({what}) has shape {blob.shape} in the weights file, {tuple(shape)} is needed",
            )
            view = blob.reshape(shape)
            view.flags.writeable = False
            return view
        need(not self._blobs, f"blob {index} ({what}) is missing: the weights file has {len(self._blobs)} blobs")
        values = wanted.values()
        return np.broadcast_to(np.float32(0), shape) if values is None else values

    @property
    def wanted(self) -> dict[int, Wanted]:
        """The weights forward asked for, by index; complete after a forward."""
        return self._wanted

    @property
    def unfilled(self) -> list[str]:
        """The weights that neither a file nor a deterministic filler has given; complete after a forward."""
        if self._blobs:
            return []
        return [w.what for w in self._wanted.values() if w.values() is None]

    def check_blobs(self) -> None:
        """Refuse a weights file with more blobs than forward used (called by `bind`'s result, after forward)."""
        given, used = len(self._blobs), len(self._wanted)
        need(given <= used, f"the weights file has {given} blobs, {used} are needed")


@dataclass(frozen=True)
class Wanted:
    """A weight a layer asks for: its shape, what it is, and the filler that gives it without a file."""

    shape: Shape
    what: str
    filler: Filler | None

    def values(self) -> Array | None:
        """The filler's values, where it is deterministic."""
        return self.filler.fill(self.shape) if self.filler is not None else None


def _trimmed(shape: Sequence[int]) -> tuple[int, ...]:
    """Without leading ones."""
    dims = list(shape)
    while dims and dims[0] == 1:
        dims.pop(0)
    return tuple(dims)
