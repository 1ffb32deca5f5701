"""Regions of images: NMS, RoiAlign and MaxRoiPool, by functions that the module contains."""

from __future__ import annotations

import numpy as np

from anylayer.generators.pytorch.code import Code, first, number
from anylayer.generators.pytorch.operators import writes
from anylayer.graph import Op
from anylayer.graph.facts import number as number_of
from anylayer.writers._target import present, require


@writes("NonMaxSuppression", unread=(2, 3, 4))
def _nms(code: Code, op: Op) -> str:
    limit, overlap, least = (None if v is None else number_of(v) for v in (*op.inputs[2:], None, None, None)[:3])
    require(not op["center_point_box"], "an NMS of boxes with centers")
    limit, overlap = (present(n, "an NMS whose limits are computed") for n in (limit, overlap))
    lowest = number(np.float32(-np.inf if least is None else least))
    arguments = f"{int(limit)}, {number(np.float32(overlap))}, {lowest}"
    boxes, scores = code.tensor(op.inputs[0]), code.tensor(op.inputs[1])
    return f"{code.helper('non_max_suppression')}({boxes}, {scores}, {arguments})"


@writes("RoiAlign")
def _roi_align(code: Code, op: Op) -> str:
    mode = op["mode"]
    require(mode == "avg", f"the mode '{mode}'")
    x, rois, images = map(code.tensor, op.inputs)
    half = op["coordinate_transformation_mode"] == "half_pixel"
    size = f"({int(op['output_height'])}, {int(op['output_width'])})"
    scale = number(np.float32(op["spatial_scale"]))
    ratio = int(op["sampling_ratio"])
    return f"{code.helper('roi_align')}({x}, {rois}, {images}, {size}, {ratio}, {scale}, {0.5 if half else 0.0})"


@writes("MaxRoiPool")
def _max_roi_pool(code: Code, op: Op) -> str:
    height, width = (int(n) for n in op["pooled_shape"])
    scale = number(np.float32(op["spatial_scale"]))
    x, rois = code.tensor(first(op)), code.tensor(op.inputs[1])
    return f"{code.helper('max_roi_pool')}({x}, {rois}, ({height}, {width}), {scale})"
