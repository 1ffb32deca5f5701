"""Operators that ncnn has no layer for."""

from __future__ import annotations

import numpy as np

from anylayer.corrections.corrector import Corrector
from anylayer.graph import Op, Value
from anylayer.network import Array
from anylayer.ops._interpolation import interpolation_of, resized_axes
from anylayer.optimize.rewrites.resizing import computed_by_cells, is_portable
from anylayer.optimize.rules import rule
from anylayer.tracing import record


@rule("Resize", kind="must", targets=("ncnn",))
def _resize(new: Corrector, o: Op) -> list[Value] | None:
    """Compute by cells and weights what ncnn's Interp lacks, and transpose channels-last images."""
    axes, coordinates = {*(resized_axes(o) or [])}, interpolation_of(o).coordinates
    is_image = len(o.first.shape) == 4 and (axes <= {2, 3} or axes <= {1, 2})
    has_rule = o["mode"] == "nearest" or coordinates in ("half_pixel", "align_corners")
    if coordinates == "pytorch_half_pixel":
        has_rule = 1 not in [o.outputs[0].shape[i] for i in axes]
    if not (is_image and has_rule and is_portable(o)):
        return computed_by_cells(new, o)
    if 1 not in axes:
        return None

    def resize_planes(x: Array, *_: Array | None) -> Array:
        n, height, width, c = o.outputs[0].shape
        shape = (n, c, height, width)
        y = record("Resize", [x.transpose(0, 3, 1, 2), None, None, np.array(shape)], shape, x.dtype, **o.attrs)
        return y.transpose(0, 2, 3, 1)

    return new.compute(o, resize_planes)
