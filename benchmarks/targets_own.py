"""The layers of benchmarks/targets.py as a user would write them with the runtimes' own operators: ONNX models,
which ONNX Runtime, OpenVINO and OpenCV read, and torch functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from anylayer.network import Array
from benchmarks.loops import LAYERS
from benchmarks.native_onnx import Form, model

_NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
_NONE = np.zeros(0, np.float32)


def _resize(mode: str) -> Form:
    how = {"mode": "linear", "coordinate_transformation_mode": mode}
    size = 129 if mode == "align_corners" else 65
    return [("Resize", ["x", "none", "none", "sizes"], "y", how)], {
        "none": _NONE,
        "sizes": _ints(1, 64, size, size),
    }


def _ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


FORMS: dict[str, Form] = {
    "Interp": _resize("align_corners"),
    "ResizeBilinear": _resize("asymmetric"),
    "Reverse": (
        [("Slice", ["x", "start", "stop", "axis", "step"], "y", {})],
        {"start": _ints(-1), "stop": _ints(-1000), "axis": _ints(3), "step": _ints(-1)},
    ),
    "Upsample": (
        [("Resize", ["x", "none", "scales"], "wide", _NEAREST), ("Mul", ["wide", "two"], "y", {})],
        {"none": _NONE, "scales": np.array([1, 1, 2, 2], np.float32), "two": np.float32(2)},
    ),
    "Normalize": ([("LpNormalization", ["x"], "y", {"axis": 1, "p": 2})], {}),
    "Reorg": ([("SpaceToDepth", ["x"], "y", {"blocksize": 2})], {}),
    "ROIAlign": (
        [
            ("Slice", ["x1", "one", "five", "one"], "corners", {}),
            (
                "RoiAlign",
                ["x", "corners", "images"],
                "y",
                {
                    "coordinate_transformation_mode": "output_half_pixel",
                    "output_height": 7,
                    "output_width": 7,
                    "sampling_ratio": 2,
                    "spatial_scale": 0.25,
                },
            ),
        ],
        {"one": _ints(1), "five": _ints(5), "images": np.zeros(50, np.int64)},
    ),
    "ShuffleChannel": (
        [
            ("Reshape", ["x", "five"], "a", {}),
            ("Transpose", ["a"], "b", {"perm": [0, 2, 1, 3, 4]}),
            ("Reshape", ["b", "four"], "y", {}),
        ],
        {"five": _ints(1, 3, 80, 28, 28), "four": _ints(1, 240, 28, 28)},
    ),
    "Crop": (
        [("Slice", ["x", "start", "stop", "axes"], "y", {})],
        {"start": _ints(13, 13), "stop": _ints(77, 77), "axes": _ints(2, 3)},
    ),
    "Chain": (
        [
            ("Mul", ["x", "two"], "a", {}),
            ("Add", ["a", "one"], "b", {}),
            ("Relu", ["b"], "c", {}),
            ("Mul", ["c", "x"], "d", {}),
            ("Sub", ["d", "three"], "y", {}),
        ],
        {"two": np.float32(2), "one": np.float32(1), "three": np.float32(3)},
    ),
    "Logistic": ([("Sigmoid", ["x"], "y", {})], {}),
}
"""The operators of each layer in ONNX, and their constants. The inputs are x and x1."""


def own_model(name: str, outputs: Sequence[Array], folder: Path) -> tuple[str, list[Array]] | None:
    """Return the path of an ONNX model of the runtimes' own operators, and its inputs. None if there is none."""
    if name not in FORMS:
        return None
    nodes, constants = FORMS[name]
    read = {given for _, inputs, _, _ in nodes for given in inputs}
    inputs = {n: x for n, x in zip(("x", "x1"), LAYERS[name][2]) if n in read}
    path = folder / f"own_{name}.onnx"
    onnx.save(model(name, inputs, nodes, constants, outputs[0].shape), str(path))
    return str(path), list(inputs.values())


def torch_functions() -> Mapping[str, Callable[..., Any]]:
    """Return the layers as functions of torch tensors. PyTorch has no function for ResizeBilinear without aligned
    corners or half pixels, and torchvision has RoiAlign."""
    import torch
    from torch.nn import functional as F

    def reorg(x: Any) -> Any:
        n, c, h, w = x.shape
        return (
            F.pixel_unshuffle(x, 2).reshape(n, c, 4, h // 2, w // 2).transpose(1, 2).reshape(n, 4 * c, h // 2, -1)
        )

    def yolo(x: Any) -> Any:
        n, _, h, w = x.shape
        raw = x.reshape(n, 3, 85, h * w)
        chance = torch.sigmoid(raw)
        place = torch.cat((chance[:, :, :2], raw[:, :, 3:4], raw[:, :, 2:3]), 2)
        return (
            place.transpose(1, 2).reshape(n, 12, h * w),
            chance[:, :, 4].reshape(n, 3 * h * w),
            chance[:, :, 5:].transpose(1, 2).reshape(n, 80, 3 * h * w),
        )

    def spatial_transformer(x: Any, theta: Any) -> Any:
        rows, columns = torch.meshgrid(torch.arange(64) / 32 - 1, torch.arange(64) / 32 - 1, indexing="ij")
        points = theta.reshape(-1, 2, 3) @ torch.stack((rows, columns, torch.ones(64, 64))).reshape(3, -1)
        centres = points + 1 / torch.tensor(x.shape[2:], dtype=torch.float32).reshape(2, 1)
        grid = centres.flip(1).transpose(1, 2).reshape(-1, 64, 64, 2)
        return F.grid_sample(x, grid, align_corners=False)

    return {
        "Interp": lambda x: F.interpolate(x, (129, 129), mode="bilinear", align_corners=True),
        "Reverse": lambda x: x.flip(3),
        "Upsample": lambda x: F.interpolate(x, scale_factor=2, mode="nearest") * 2,
        "Normalize": lambda x: F.normalize(x, dim=1),
        "Reorg": reorg,
        "ShuffleChannel": lambda x: F.channel_shuffle(x, 3),
        "Yolo": yolo,
        "SpatialTransformer": spatial_transformer,
        "Crop": lambda x, like: x[:, :, 13:77, 13:77],
        "Chain": lambda x: F.relu(x * 2 + 1) * x - 3,
        "Logistic": torch.sigmoid,
    }
