"""ROIPooling: Fast R-CNN's maxima over regions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.network import Array
from tests.layers.caffe.boxes import F
from tests.layers.harness import case, noise, ramp, rejects

ROIS = np.array(
    [
        [0, 0, 0, 9, 7],
        [1, 3, 2, 17, 12],
        [0, -4, -6, 5, 30],  # beyond the map on three sides
        [1, 8, 8, 3, 2],  # its end before its start: 1 x 1
        [0, 2.5, 3.5, 6.5, 4.5],  # halves
        [1, 40, 40, 60, 60],  # outside
        [0, 5, 5, 5, 5],
    ],
    F,
)


def reference(x: Array, rois: Array, ph: int, pw: int, scale: tuple[float, float]) -> Array:
    """Compute roi_pooling_layer.cpp one bin at a time."""
    _, c, h, w = x.shape
    y = np.zeros((len(rois), c, ph, pw), F)
    for n, (image, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (
            int(math.copysign(math.floor(abs(float(F(v * F(s)))) + 0.5), v))
            for v, s in zip(corners, (scale[1], scale[0]) * 2)
        )
        bin_h, bin_w = F(max(y2 - y1 + 1, 1)) / F(ph), F(max(x2 - x1 + 1, 1)) / F(pw)
        for i, j in np.ndindex(ph, pw):
            top, bottom = int(np.floor(F(i) * bin_h)) + y1, int(np.ceil(F(i + 1) * bin_h)) + y1
            left, right = int(np.floor(F(j) * bin_w)) + x1, int(np.ceil(F(j + 1) * bin_w)) + x1
            part = x[int(image), :, max(top, 0) : max(min(bottom, h), 0), max(left, 0) : max(min(right, w), 0)]
            if part.size:
                y[n, :, i, j] = part.max(axis=(1, 2))
    return y


def agrees(p: dict[str, Any], scale: tuple[float, float], rois: Array = ROIS, **given: Any) -> Any:
    x = noise(2, 3, 9, 11)
    outputs = [reference(x, rois.reshape(-1, 5), p["pooled_h"], p["pooled_w"], scale)]
    return case("ROIPooling", p, inputs=[x, rois], outputs=outputs, **given)


test_scale_one = agrees({"pooled_h": 3, "pooled_w": 3}, (1, 1))
test_half_scale = agrees({"pooled_h": 2, "pooled_w": 3, "spatial_scale": 0.5}, (0.5, 0.5))
test_one_bin = agrees({"pooled_h": 1, "pooled_w": 1}, (1, 1))
test_more_bins_than_cells = agrees({"pooled_h": 7, "pooled_w": 7, "spatial_scale": 0.25}, (0.25, 0.25))
test_four_dimensions = agrees({"pooled_h": 2, "pooled_w": 2}, (1, 1), ROIS[:, :, None, None])
test_ascend_default = agrees({"pooled_h": 2, "pooled_w": 2}, (0.0625, 0.0625), dialect="ascend")
test_ascend_scales = agrees(
    {"pooled_h": 2, "pooled_w": 2, "spatial_scale_h": 0.25, "spatial_scale_w": 0.5}, (0.25, 0.5)
)
test_by_hand = case(
    "ROIPooling",
    {"pooled_h": 2, "pooled_w": 2},
    inputs=[ramp(1, 1, 4, 4), [[0, 0, 0, 2, 2]]],
    outputs=[[[[[5, 6], [9, 10]]]]],  # bins of 1.5 cells share the middle one
)


def rejected(params: dict[str, Any], text: str, rois: Array = ROIS, x: Array | None = None, **given: Any) -> Any:
    params = {"pooled_h": 2, "pooled_w": 2, **params}
    return rejects("ROIPooling", params, inputs=[ramp(2, 1, 4, 4) if x is None else x, rois], text=text, **given)


test_rejects_pooled_w_of_0 = rejects(
    "ROIPooling", {"pooled_h": 2}, inputs=[ramp(1, 1, 4, 4), ROIS], text="pooled_w must be at least 1, got 0"
)
test_rejects_regions_without_image_index = rejected({}, "rois must be of shape (R, 5), got (7, 4)", ROIS[:, :4])
test_rejects_map_without_4_axes = rejected({}, "needs an input (N, C, H, W), got shape (4, 4)", x=ramp(4, 4))
test_rejects_spatial_scale_h_without_spatial_scale_w = rejected(
    {"spatial_scale_h": 0.5}, "spatial_scale_h and spatial_scale_w must be given together"
)
test_rejects_spatial_scales_that_contradict = rejected(
    {"spatial_scale": 1.0, "spatial_scale_h": 0.5, "spatial_scale_w": 0.25},
    "spatial_scale=1 contradicts spatial_scale_h=0.5 and spatial_scale_w=0.25",
)


def _padded(rois: Array, ratio: float) -> Array:
    """Return the corners, moved outwards as in roi_pooling_layer.cpp of mscnn."""
    found = rois.copy()
    for row in found:
        wide, high = (row[3] - row[1] + F(1)) * F(ratio), (row[4] - row[2] + F(1)) * F(ratio)
        row[1:] += [-wide, -high, wide, high]
    return found


_X = noise(2, 3, 9, 11)
_MSCNN = {"pooled_h": 3, "pooled_w": 2, "spatial_scale": 0.5, "pad_ratio": 0.25}
test_pad_ratio_is_mscnn = case(
    "ROIPooling", _MSCNN, inputs=[_X, ROIS], outputs=[reference(_X, _padded(ROIS, 0.25), 3, 2, (0.5, 0.5))]
)
test_pad_ratio_of_zero = case(
    "ROIPooling",
    {**_MSCNN, "pad_ratio": 0.0},
    inputs=[_X, ROIS[:, :, None, None]],
    outputs=[reference(_X, ROIS, 3, 2, (0.5, 0.5))],
)
test_rejects_pooled_h_of_0_in_mscnn = rejects(
    "ROIPooling", {"pad_ratio": 0.25, "pooled_w": 2}, inputs=[_X, ROIS], text="pooled_h must be at least 1, got 0"
)

SOPHGO = {"pooled_h": 1, "pooled_w": 1}
MAPS = ramp(2, 1, 2, 2)
REGIONS = np.array([[[[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]], [[[1, 0, 0, 0, 0], [1, 0, 0, 1, 1]]]], np.float32)
test_sophgo_takes_regions_of_a_batch = case(
    "ROIPooling",
    SOPHGO,
    dialect="sophgo",
    inputs=[MAPS, REGIONS],
    outputs=[np.array([0, 3, 4, 7], np.float32).reshape(4, 1, 1, 1)],
)
test_sophgo_pools_only_the_first_regions_of_others = case(
    "ROIPooling",
    SOPHGO,
    dialect="sophgo",
    inputs=[MAPS, REGIONS.reshape(4, 5, 1, 1)],
    outputs=[np.array([0, 3, *[np.finfo(np.float32).min] * 2], np.float32).reshape(4, 1, 1, 1)],
    notes=["of the 4 regions (4, 5, 1, 1) only the first 2 are pooled, a fault of Sophgo's Caffe"],
)
test_sophgo_rejects_rank_2 = rejects(
    "ROIPooling",
    SOPHGO,
    dialect="sophgo",
    inputs=[MAPS, REGIONS.reshape(4, 5)],
    text="rois must be of shape (2, 1, R, 5) in Sophgo's Caffe, got (4, 5)",
)
