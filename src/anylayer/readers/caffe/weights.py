"""Weights in a text file: a prototxt whose layers have `blobs`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from anylayer.errors import at, plural
from anylayer.network import Array, Shape, reshaped
from anylayer.protobuf.tree import Block
from anylayer.readers._arrays import to_float32

_OLD_DIMS = ("num", "channels", "height", "width")
"""The fields of a blob's shape in old files."""


@dataclass(slots=True)
class TextBlob:
    """A blob of a text file: see StoredBlob."""

    block: Block

    def array(self) -> Array:
        """Return the values as float32. Raise FileError if shape and values do not agree."""
        block = self.block
        values = to_float32(block.numbers("double_data" if "double_data" in block else "data"))
        shape = block.block("shape")
        dims: Shape = ()
        if any(name in block for name in _OLD_DIMS):
            dims = tuple(block.integer(name) for name in _OLD_DIMS)
        elif shape is not None:
            dims = tuple(shape.integers("dim"))
        if any(d < 0 for d in dims) or int(np.prod(dims, dtype=object)) != values.size:
            raise block.fail(f"a blob with shape {dims} has {plural(values.size, 'value')}")
        with at(block.place()):
            return reshaped(values, dims)


@dataclass(slots=True)
class TextLayer:
    """A layer of a text file: see StoredLayer."""

    name: str
    blobs: list[TextBlob] = field(default_factory=list)

    @classmethod
    def of(cls, layer: Block) -> TextLayer:
        """Return the layer that a block describes."""
        return cls(layer.text("name"), [TextBlob(b) for b in layer.blocks("blobs")])
