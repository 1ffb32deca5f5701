"""Messages and enums that several layers of Caffe share."""

from __future__ import annotations

from anylayer.layer import Enum, Message, field
from anylayer.layer.filler import Filler

ENGINE = Enum("DEFAULT", "CAFFE", "CUDNN")


def filler_if_written(filler: Filler, written: bool) -> Filler | None:
    """Return a filler that the file contains, or None when the file leaves the values of a weight open."""
    return filler if written else None


def constant(value: float) -> Filler:
    """Return a filler with one value."""
    filler = Filler.__new__(Filler)
    filler.assign({"type": "constant", "value": value})
    return filler


class BlobShape(Message):
    """The sizes of a blob, outermost axis first."""

    dim: tuple[int, ...] = field(1, "int64", repeated=True, doc="size of each axis")
