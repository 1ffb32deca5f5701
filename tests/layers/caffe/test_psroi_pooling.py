"""PSROIPooling: R-FCN's means over regions, each bin from channels of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.network import Array
from tests.layers.caffe.boxes import F
from tests.layers.caffe.test_roi_pooling import ROIS
from tests.layers.harness import case, noise, ramp, rejects


def away(v: float) -> float:
    """Round halves away from zero, as round of C."""
    return math.copysign(math.floor(abs(v) + 0.5), v)


def reference(x: Array, rois: Array, c: int, g: int, scale: float) -> Array:
    """Compute psroi_pooling_layer.cpp one bin at a time."""
    _, _, h, w = x.shape
    y = np.zeros((len(rois), c, g, g), F)
    for n, (image, x1, y1, x2, y2) in enumerate(rois):
        left, top = F(away(x1)) * F(scale), F(away(y1)) * F(scale)
        right, bottom = F(away(x2) + 1.0) * F(scale), F(away(y2) + 1.0) * F(scale)
        bin_w, bin_h = max(right - left, F(0.1)) / F(g), max(bottom - top, F(0.1)) / F(g)
        for k, i, j in np.ndindex(c, g, g):
            rows = slice(
                *(int(np.clip(v, 0, h)) for v in (np.floor(F(i) * bin_h + top), np.ceil(F(i + 1) * bin_h + top)))
            )
            cols = slice(
                *(int(np.clip(v, 0, w)) for v in (np.floor(F(j) * bin_w + left), np.ceil(F(j + 1) * bin_w + left)))
            )
            part = x[int(image), (k * g + i) * g + j, rows, cols]
            if part.size:
                y[n, k, i, j] = part.mean(dtype=np.float64)
    return y


def agrees(c: int, g: int, scale: float, n: int = 2, rois: Array = ROIS) -> Any:
    x = noise(n, c * g * g, 9, 11)
    flat = rois.reshape(-1, 5)
    p = {"output_dim": c, "group_size": g, "spatial_scale": scale}
    return case("PSROIPooling", p, inputs=[x, rois], outputs=[reference(x, flat, c, g, scale)])


test_three_by_three = agrees(2, 3, 1.0)
test_two_by_two_at_half_scale = agrees(3, 2, 0.5)
test_one_bin = agrees(4, 1, 0.25)
test_one_image = agrees(2, 3, 0.5, n=1, rois=ROIS[ROIS[:, 0] == 0])
test_four_dimensions = agrees(2, 2, 0.5, rois=ROIS[:, :, None, None])
test_by_hand = case(
    "PSROIPooling",
    {"output_dim": 1, "group_size": 2, "spatial_scale": 0.5},
    inputs=[ramp(1, 4, 2, 2), [[0, 0, 0, 3, 3]]],
    outputs=[[[[[0, 5], [10, 15]]]]],  # bin (i, j) is cell (i, j) of channel 2 i + j
)


def rejected(params: dict[str, Any], text: str, **given: Any) -> Any:
    params = {"output_dim": 1, "group_size": 2, "spatial_scale": 0.5, **params}
    return rejects("PSROIPooling", params, inputs=given.get("inputs", [ramp(1, 4, 2, 2), ROIS[:1]]), text=text)


test_rejects_too_few_channels_for_groups = rejected(
    {"output_dim": 2}, "output_dim=2 with group_size=2 needs 8 channels, got 4"
)
test_rejects_group_size_of_0 = rejected({"group_size": 0}, "group_size must be at least 1, got 0")
test_rejects_negative_output_dim = rejected({"output_dim": -1}, "output_dim must be at least 1, got -1")
test_rejects_regions_without_5_values = rejected(
    {}, "rois must be of shape (R, 5), got (1, 7)", inputs=[ramp(1, 4, 2, 2), ramp(1, 7)]
)
test_rejects_unknown_field = rejected({"divide_type": 1}, "psroi_pooling_param has no field 'divide_type'")
test_scale_is_needed = rejects(
    "PSROIPooling",
    {"output_dim": 1, "group_size": 2},
    inputs=[ramp(1, 4, 2, 2), ROIS[:1]],
    text="parameter 'spatial_scale' is missing",
)
