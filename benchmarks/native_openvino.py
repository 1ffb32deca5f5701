"""The operators in OpenVINO's own operation sets, for the OpenVINO runner. This file does not import anylayer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset15 as op

Parameters = dict[str, Any]


def _interp(p: Parameters) -> Any:
    sizes, axes = np.array([129, 129], np.int64), np.array([2, 3], np.int64)
    return op.interpolate(
        p["x"],
        op.constant(sizes),
        "linear_onnx",
        "sizes",
        axes=op.constant(axes),
        coordinate_transformation_mode="align_corners",
    )


def _upsample(p: Parameters) -> Any:
    scales, axes = np.array([2, 2], np.float32), np.array([2, 3], np.int64)
    return op.interpolate(
        p["x"],
        op.constant(scales),
        "nearest",
        "scales",
        axes=op.constant(axes),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _normalize(p: Parameters) -> Any:
    scale = np.linspace(1, 20, 512, dtype=np.float32).reshape(1, -1, 1, 1)
    unit = op.normalize_l2(p["x"], op.constant(np.array([1], np.int64)), 1e-10, "add")
    return op.multiply(unit, op.constant(scale))


def _space_to_depth(p: Parameters) -> Any:
    return op.space_to_depth(p["x"], "blocks_first", 2)


def _reorg(p: Parameters) -> Any:
    return op.reorg_yolo(p["x"], [2, 2])


def _shuffle(p: Parameters) -> Any:
    return op.shuffle_channels(p["x"], 1, 3)


def _permute(p: Parameters) -> Any:
    return op.transpose(p["x"], op.constant(np.array([0, 2, 3, 1], np.int64)))


def _leaky(p: Parameters) -> Any:
    return op.prelu(p["x"], op.constant(np.array([0.1], np.float32)))


def _detection(p: Parameters) -> Any:
    return op.detection_output(
        p["loc"],
        p["conf"],
        p["prior"],
        {
            "background_label_id": 0,
            "top_k": 400,
            "variance_encoded_in_target": False,
            "keep_top_k": [200],
            "code_type": "caffe.PriorBoxParameter.CENTER_SIZE",
            "share_location": True,
            "nms_threshold": 0.45,
            "confidence_threshold": 0.01,
            "clip_after_nms": False,
            "clip_before_nms": False,
            "decrease_label_id": False,
            "normalized": True,
            "input_height": 1,
            "input_width": 1,
            "objectness_score": 0.0,
        },
    )


def _grid(p: Parameters) -> Any:
    return op.grid_sample(p["x"], p["grid"], {"align_corners": False, "mode": "bilinear", "padding_mode": "zeros"})


def _prior(p: Parameters) -> Any:
    size = op.constant(np.array([38, 38], np.int64))
    picture = op.constant(np.array([300, 300], np.int64))
    attributes = {
        "min_size": [30.0],
        "max_size": [60.0],
        "aspect_ratio": [2.0, 3.0],
        "flip": True,
        "clip": False,
        "step": 0.0,
        "offset": 0.5,
        "variance": [0.1, 0.1, 0.2, 0.2],
        "scale_all_sizes": True,
    }
    return op.unsqueeze(op.prior_box(size, picture, attributes), op.constant(np.array([0], np.int64)))


BUILDERS: dict[str, Callable[[Parameters], Any]] = {
    "interp": _interp,
    "upsample": _upsample,
    "normalize": _normalize,
    "space_to_depth": _space_to_depth,
    "reorg": _reorg,
    "shuffle": _shuffle,
    "permute": _permute,
    "leaky": _leaky,
    "detout": _detection,
    "gridsample": _grid,
    "priorbox": _prior,
}


def build(name: str, inputs: dict[str, np.ndarray]) -> Any:
    """Return the model of the operator called `name`, or None if OpenVINO has no operation for it."""
    key = next((key for key in BUILDERS if name.startswith(key)), None)
    if key is None:
        return None
    parameters = {n: op.parameter(list(a.shape), np.float32, name=n) for n, a in inputs.items()}
    return ov.Model([BUILDERS[key](parameters)], list(parameters.values()), name)
