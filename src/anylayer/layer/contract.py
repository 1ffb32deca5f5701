"""Layer: the base class of layers with declared fields. Built-in layers use it, and a user's layer may."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from anylayer.errors import need, plural
from anylayer.graph.symbolic import is_symbolic
from anylayer.layer.fields import Message
from anylayer.network import Array, Node, Shape, TensorType

if TYPE_CHECKING:
    from anylayer.layer.samples import Sampler

AxisMap = tuple[Fraction, Fraction]
"""The map x -> a*x + b along one axis, as (a, b)."""
PixelMap = tuple[AxisMap, AxisMap]
"""The maps along height and width."""

MAX_WEIGHT_VALUES = 1 << 28
"""Values per weight that no file holds. A file may claim any number; Caffe's largest layers have 2**27."""

IDENTITY: PixelMap = ((Fraction(1), Fraction(0)), (Fraction(1), Fraction(0)))


class InitialValues(Protocol):
    """The values of a weight where no weights file gives them."""

    def fill(self, shape: Shape) -> Array | None:
        """Return values of this shape, or None where they are random."""


class Layer(Message):
    """The definition of a layer type. A subclass declares its parameters and computes its outputs in `forward`.

    It declares each parameter as a field, and names the message that holds them:

        @layer("ShuffleChannel")
        class ShuffleChannel(Layer):
            \"\"\"Interleave the channels of `group` groups (ShuffleNet, arXiv 1707.01083).\"\"\"

            message = "shuffle_channel_param"
            group: int = field(1, "uint32", 1, doc="number of groups; must divide the channels")

            def forward(self, x):
                n, c, *rest = x.shape
                need(c % self.group == 0, f"group={self.group} does not divide {c} channels")
                return x.reshape(n, self.group, c // self.group, *rest).swapaxes(1, 2).reshape(x.shape)

    `forward` takes one array per input and returns an array, or a tuple or list of one array per output. It must
    not write to its inputs. One instance serves one set of input types.

    Besides its fields an instance has `name`, `type`, `dialect` (or None), `outputs` (the number of outputs),
    `in_place` (whether the file overwrites input 0), `settings` (Node.settings), and `blob(...)` for its weights.
    """

    message: ClassVar[str] = ""
    """The prototxt message that holds the fields; "" for a layer without parameters."""
    numbers: ClassVar[Mapping[str, int]] = {}
    """The field number of the message in LayerParameter, by dialect; "" stands for the common one.
    It is 0 where the dialect's caffe.proto does not declare the message."""
    also: ClassVar[Mapping[str, type[Message]]] = {}
    """Further messages that the layer reads, by name; each becomes an attribute of that name."""
    role: ClassVar[str] = ""
    """What the layer does besides computing ("").

    "input" and "data" give a network's inputs ("data": from training data). "loss" serves training, and is removed
    where its labels are. "training" is always removed. "sink" has inputs and no outputs. "code" is a program
    inside the file, which is never run; a user's class for it is registered under the name of the node.
    """

    modules: ClassVar[Sequence[str]] = ()
    """For a layer of type "Python", which pycaffe runs: the modules whose class of this name it computes."""

    elementwise: ClassVar[bool] = False
    """Whether each output pixel has the coordinates of its input pixel."""
    aligned: ClassVar[bool] = False
    """Whether a reader may compute this layer's offset from the layers before it, where the file leaves it out."""

    needs_dialect: ClassVar[bool] = False
    """Whether, of several classes of one type, this one is meant only where the dialect is given."""

    distinctive: ClassVar[frozenset[str]] = frozenset()
    """Of several classes of one type, a file means this one only if it writes one of these fields."""
    takes: ClassVar[frozenset[int]] = frozenset()
    """Of several classes of one type, a file means this one only with one of these numbers of inputs."""

    samples: ClassVar[Mapping[int, Sampler]] = {}
    """The inputs, by index, for which normal noise means nothing, for example regions: a function of
    anylayer.layer.samples for each. Where they are inputs of the network, a comparison without data draws them."""

    name: str
    type: str
    dialect: str | None
    outputs: int
    in_place: bool
    settings: Mapping[str, Any]
    notes: list[str]
    _blobs: list[Array]
    _taken: int
    _wanted: dict[int, Wanted]

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        """Return whether a node with these params (of `message`) and numbers of inputs and outputs can mean this
        class.

        It is called only where several classes share a type and the dialect is not given.
        """
        is_meant = not cls.needs_dialect and (not cls.distinctive or bool(cls.distinctive & values.keys()))
        is_meant = is_meant and (not cls.takes or inputs in cls.takes)
        return is_meant and all(name in cls.fields and cls.fields[name].is_read_in(None) for name in values)

    @classmethod
    def others(cls, values: Mapping[str, Any], shapes: Sequence[Shape]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what a file may mean by the fields that it leaves out: a text, and the values of fields.

        values: the fields that the file writes. shapes: those of the inputs. Only `anylayer identify` asks.
        """
        for name, declared in cls.fields.items():
            if name not in values:
                yield from ((f"{name}: {value}", {name: value}) for value in declared.others)

    def setup(self) -> None:
        """Check the parameters. Called once, after the fields are set and before any input is known."""

    def forward(self, *inputs: Any) -> Any:
        """Compute the outputs. This is the definition of the layer."""
        raise NotImplementedError

    def prepare(self, node: Node, dialect: str | None) -> None:
        """Set the attributes from the node's params and blobs, then call `setup`. Called by `bind`."""
        self.name, self.type, self.dialect = node.name, node.type, dialect
        self.outputs, self.in_place, self.settings = len(node.outputs), node.in_place, node.settings
        self.notes, self._blobs, self._wanted = [], node.blobs, {}
        self._take(self, self.message, node)
        for name, kind in self.also.items():
            message = kind.__new__(kind)
            self._take(message, name, node)
            setattr(self, name, message)
        for name, declared in self.fields.items():
            if declared.only and not declared.hint and self.has(name):
                self.note(f"{name} has no effect in dialect '{dialect}'")
        for name in node.params:
            if name != self.message and name not in self.also:
                self.note(f"{name} has no effect: {node.type} does not read it")
        for name, declared in self.fields.items():
            declared.check(getattr(self, name))
        self.setup()

    def _take(self, target: Message, name: str, node: Node) -> None:
        """Set the fields of `target` from the node's message `name`."""
        values = node.params.get(name, {}) if name else {}
        need(isinstance(values, Mapping), f"{name} is given {len(values)} times, once is allowed")
        defaults = node.defaults.get(name)
        target.assign(values, dialect=self.dialect, defaults=defaults, message=name, lines=node.lines)

    def input_types(self) -> list[TensorType | None]:
        """Return, for the roles "input" and "data", the type of each output, None where the file lacks it."""
        return [None] * self.outputs

    def coordinates(self) -> PixelMap | None:
        """Return the map a*i + b from input pixels to output pixels along height and width, or None."""
        return IDENTITY if self.elementwise else None

    def note(self, text: str, *, open_size: int | None = None) -> None:
        """Add a note for the user about how this layer was read, once.

        open_size: a size; the note is added only if the network leaves it open.
        """
        if text not in self.notes and (open_size is None or is_symbolic(open_size)):
            self.notes.append(text)

    def blob(
        self, index: int, shape: Shape, filler: InitialValues | None = None, *, what: str = "weights"
    ) -> Array:
        """Return weight number `index`, read-only; the values of its filler where there is no weights file.

        Raises LayerError where the file's blob has another shape. Leading sizes of 1 are ignored (Caffe's legacy
        rule, blob.cpp ShapeEquals). Without a file, a random filler gives zeros, and the layer is reported as
        unfilled: such a network can be inspected but not run. `what` names the weight in messages.
        """
        count = math.prod(shape)
        need(
            bool(self._blobs) or count <= MAX_WEIGHT_VALUES,
            f"blob {index} ({what}) of shape {tuple(shape)} would have {count} values; without a weights file the "
            f"limit is {MAX_WEIGHT_VALUES}",
        )
        declared = Wanted(tuple(shape), what, filler)
        self._wanted[index] = declared
        if index < len(self._blobs):
            blob = self._blobs[index]
            need(
                _trim(blob.shape) == _trim(shape),
                f"blob {index} ({what}) has shape {blob.shape} in the weights file, expected {tuple(shape)}",
            )
            view = blob.reshape(shape)
            view.flags.writeable = False
            return view
        need(
            not self._blobs,
            f"blob {index} ({what}) is missing: the weights file has {plural(len(self._blobs), 'blob')}",
        )
        values = declared.values()
        return np.broadcast_to(np.float32(0), shape) if values is None else values

    @property
    def wanted(self) -> dict[int, Wanted]:
        """The weights that forward has asked for, by index; complete after a call of forward."""
        return self._wanted

    @property
    def unfilled(self) -> list[str]:
        """The names of weights that neither a file nor a deterministic filler gives; complete after forward."""
        if self._blobs:
            return []
        return [w.what for w in self._wanted.values() if w.values() is None]

    def check_blobs(self) -> None:
        """Raise LayerError where the weights file has more blobs than forward, called before, has asked for."""
        given, used = len(self._blobs), len(self._wanted)
        need(given <= used, f"the weights file has {plural(given, 'blob')}, expected {used}")


@dataclass(frozen=True)
class Wanted:
    """A weight that a layer asks for: its shape, its name in messages, and its filler without a file."""

    shape: Shape
    what: str
    filler: InitialValues | None

    def values(self) -> Array | None:
        """Return the filler's values, or None where there is no filler or it is random."""
        return self.filler.fill(self.shape) if self.filler is not None else None


def _trim(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without its leading sizes of 1."""
    dims = list(shape)
    while dims and dims[0] == 1:
        dims.pop(0)
    return tuple(dims)
