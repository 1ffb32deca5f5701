"""Crop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from anylayer.errors import wording
from anylayer.layer import Array, Layer, Shape, field, layer, need
from anylayer.layer.contract import PixelMap
from anylayer.layers.caffe._axes import canonical


@layer("Crop")
class Crop(Layer):
    """Crop the first input to the sizes of the second from `axis` on, starting at `offset`.

    Source: BVLC/caffe src/caffe/layers/crop_layer.cpp.
    """

    aligned = True
    message = "crop_param"
    numbers = {"": 144}
    axis: int = field(1, "int32", 2, doc="first axis to crop")
    offset: tuple[int, ...] = field(
        2, "uint32", repeated=True, doc="start of the crop: one for all axes, or one per axis; default 0"
    )

    def coordinates(self) -> PixelMap | None:
        offsets = {0: (0, 0), 1: self.offset * 2, 2: self.offset}.get(len(self.offset)) if self.axis == 2 else None
        if offsets is None:
            return None
        return (Fraction(1), Fraction(-offsets[0])), (Fraction(1), Fraction(-offsets[1]))

    @classmethod
    def others(cls, values: Mapping[str, Any], shapes: Sequence[Shape]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the offset of a crop from the centre, as OpenCV's tutorial on HED cuts."""
        axis = int(values.get("axis", 2))
        if "offset" not in values and len(shapes) == 2 and len(shapes[0]) == len(shapes[1]):
            spare = [have - size for have, size in zip(shapes[0][axis:], shapes[1][axis:])]
            if any(spare) and min(spare) >= 0:
                yield "offset: the centre", {"axis": axis, "offset": [n // 2 for n in spare]}

    def forward(self, x: Array, reference: Array) -> Array:
        if not self._given:
            self.note(
                "Crop without crop_param cuts from the corner (offset 0), as BVLC Caffe does; HED's fork aligns "
                "by the network's geometry instead: give "
                + wording("dialect='hed'", "--dialect hed")
                + ", or write crop_param { offset: ... }"
            )
        need(not self.in_place, "cannot work in place: give the top another name than the bottom")
        need(
            len(x.shape) == len(reference.shape),
            f"both inputs must have the same number of axes, got {tuple(x.shape)} and {tuple(reference.shape)}",
        )
        axis = canonical(self.axis, x)
        cut = len(x.shape) - axis
        need(
            len(self.offset) in (0, 1, cut),
            f"offset must be given once, or once for each of the {cut} axes from axis {axis} on, "
            f"got {len(self.offset)} offsets",
        )
        offsets = self.offset if len(self.offset) == cut else (self.offset or (0,)) * cut
        window = [slice(None)] * axis
        for i, offset in enumerate(offsets, axis):
            size, length = x.shape[i], reference.shape[i]
            need(
                offset + length <= size,
                f"offset {offset} and size {length} reach past the {size} cells of axis {i}",
            )
            window.append(slice(offset, offset + length))
        return x[tuple(window)]
