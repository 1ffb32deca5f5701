"""Weights written as text: a prototxt whose layers have `blobs`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from anylayer.network import Array, Shape
from anylayer.readers._tree import Block
from anylayer.readers.caffe.wire import float32

_LEGACY = ("num", "channels", "height", "width")


@dataclass(slots=True)
class TextBlob:
    """A BlobProto written as text."""

    block: Block

    def array(self) -> Array:
        """The values, float32. Raises FileError where shape and values do not agree."""
        block = self.block
        values = float32(block.numbers("double_data" if "double_data" in block else "data"))
        shape = block.block("shape")
        dims: Shape = ()
        if any(name in block for name in _LEGACY):
            dims = tuple(block.integer(name) for name in _LEGACY)
        elif shape is not None:
            dims = tuple(shape.integers("dim"))
        if any(d < 0 for d in dims) or int(np.prod(dims, dtype=object)) != values.size:
            raise block.fail(f"a blob of shape {dims} has {values.size} values")
        return values.reshape(dims)


@dataclass(slots=True)
class TextLayer:
    """A layer of a text file: its name and its blobs."""

    name: str
    blobs: list[TextBlob] = field(default_factory=list)

    @classmethod
    def of(cls, layer: Block) -> TextLayer:
        """From a layer's block."""
        return cls(layer.text("name"), [TextBlob(b) for b in layer.blocks("blobs")])
