"""Blobs: the arrays of a pycaffe network, which scripts read and write in place.

`Blob` holds an array. `LayerBlob` is the result of a layer, which may be computed only when it is read. `Weight`
is a weight: the compiled network has a frozen copy of it, and a write is noticed at the next call of forward.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakSet

import numpy as np

from anylayer.errors import InputError, need
from anylayer.graph.symbolic import as_index, same_shape
from anylayer.network import Array, Shape

if TYPE_CHECKING:
    from anylayer.caffe.stages import EngineStage

_OWN_REFERENCES = 2
"""References to an array that nothing but its blob holds: the blob's own and the argument of getrefcount."""


def _legacy_size(axis: int) -> property:
    """Return the property for the size of an axis of a blob with at most 4 axes, 1 where there is none."""

    def size(blob: Blob) -> int:
        rule = "num, channels, height and width are sizes of blobs of at most 4 axes, this one has shape"
        need(len(blob.shape) <= 4, f"{rule} {blob.shape}; use blob.shape", InputError)
        return blob.shape[axis] if axis < len(blob.shape) else 1

    return property(size)


class Blob:
    """An array that is read and written in place: `blob.data[...] = array`. `reshape` changes its shape."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self._diff: Array | None = None

    @property
    def data(self) -> Array:
        """The values. They are written in place: `blob.data[...] = array`."""
        return self._read()

    @data.setter
    def data(self, value: Any) -> NoReturn:
        raise InputError("data cannot be replaced; write into it: blob.data[...] = array")

    def _read(self) -> Array:
        return self._array

    @property
    def diff(self) -> Array:
        """An array of zeros of the shape of `data`: anylayer computes no gradients."""
        if self._diff is None or self._diff.shape != self.shape:
            self._diff = np.zeros(self.shape, np.float32)
        return self._diff

    @property
    def shape(self) -> Shape:
        """The size of each axis."""
        return self._array.shape

    @property
    def count(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    num, channels, height, width = map(_legacy_size, range(4))

    def reshape(self, *shape: int) -> None:
        """Change the shape. The values stay where their number does, and are zeros otherwise."""
        try:
            sizes = tuple(map(as_index, shape))
        except TypeError:
            raise InputError(f"reshape takes one integer per axis, got {', '.join(map(repr, shape))}") from None
        need(all(d >= 0 for d in sizes), f"a size cannot be negative, got {sizes}", InputError)
        if not same_shape(sizes, self.shape):
            self._resize(sizes)

    def _resize(self, shape: Shape) -> None:
        same = math.prod(shape) == self._array.size
        self._array = self._array.reshape(shape).copy() if same else np.zeros(shape, self._array.dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {' '.join(map(str, self.shape))}>"


class LayerBlob(Blob):
    """A blob that layers compute. `name` is its name in the file.

    `producer` is the stage that computed it last; the values are computed when they are read for the first time
    after a run, unless the run has stored them.
    """

    def __init__(self, name: str, array: Array) -> None:
        super().__init__(array)
        self.name = name
        self.producer: EngineStage | None = None
        self._seen = 0

    @property
    def pending(self) -> bool:
        """Whether the values of the last run are not computed yet."""
        return self.producer is not None and self._seen != self.producer.generation

    def _read(self) -> Array:
        array = self.current()
        if self.producer is not None:
            self.producer.handed_out(self)
        return array

    def current(self) -> Array:
        """Return the values for a run, which is not a read of the script."""
        if self.producer is not None and self._seen != self.producer.generation:
            self.producer.fill(self)
        return self._array

    @property
    def shape(self) -> Shape:
        """The size of each axis."""
        return self.current().shape

    def _resize(self, shape: Shape) -> None:
        self.current()
        super()._resize(shape)

    def store(self, array: Array, generation: int) -> None:
        """Take the values of a run. An array of the same shape is overwritten, as in Caffe."""
        if self._array.shape == array.shape:
            self._array[...] = array
        else:
            self._array = np.array(array, np.float32, order="C")
        self._seen = generation

    @property
    def is_held(self) -> bool:
        """Whether a script holds the array, so that it expects the values of the next run in it."""
        return sys.getrefcount(self._array) > _OWN_REFERENCES


class Fed(LayerBlob):
    """A blob of a data layer, whose values a script must write. `given` says that the script has touched it."""

    def __init__(self, name: str, array: Array) -> None:
        super().__init__(name, array)
        self.given = False

    def _read(self) -> Array:
        self.given = True
        return super()._read()


class Weight(Blob):
    """A weight of a layer. Networks that share it hold the same object.

    `listeners` are the sets of weights that networks compare before a run; a read of `data` adds the weight to
    them.
    """

    def __init__(self, array: Array) -> None:
        super().__init__(array)
        self._frozen = array
        self.listeners: WeakSet[Exposed] = WeakSet()

    def _read(self) -> Array:
        if self._array is self._frozen:
            self._array = np.array(self._frozen, np.float32, order="C")
        for exposed in self.listeners:
            exposed.weights[id(self)] = self
        return self._array

    def _resize(self, shape: Shape) -> None:
        self._read()
        super()._resize(shape)

    def frozen(self) -> Array:
        """Return an array of the current values that is never written to: the same array until they change."""
        if self._array is not self._frozen:
            same = self._array.shape == self._frozen.shape
            if not (same and np.array_equal(self._array.view(np.uint32), _bits(self._frozen))):
                self._frozen = self._array.copy()
            if not self.is_held:
                self._array = self._frozen
        return self._frozen

    @property
    def is_held(self) -> bool:
        """Whether a script holds an array that it may write to."""
        return self._array is not self._frozen and sys.getrefcount(self._array) > _OWN_REFERENCES


class Exposed:
    """The weights that scripts have read since a network's last run, or still hold."""

    def __init__(self) -> None:
        self.weights: dict[int, Weight] = {}


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array, np.float32).view(np.uint32)
