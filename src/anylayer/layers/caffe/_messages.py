"""Messages and enums that several layers of Caffe share."""

from __future__ import annotations

from anylayer.layer import Enum, Message, field
from anylayer.layer.filler import Filler

ENGINE = Enum("DEFAULT", "CAFFE", "CUDNN")


def given(filler: Filler, written: bool) -> Filler | None:
    """A filler the file writes; None where it is silent and so nothing tells a weight's values."""
    return filler if written else None


def constant(value: float) -> Filler:
    """A filler that gives one value everywhere."""
    filler = Filler.__new__(Filler)
    filler.assign({"type": "constant", "value": value})
    return filler


class BlobShape(Message):
    """Dimensions of a blob, outermost first."""

    dim: tuple[int, ...] = field(1, "int64", repeated=True, doc="size of each axis")
