"""The fifteen operators, each a network of one Caffe layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.networks.vgg_ssd import DETECTION
from benchmarks.prototxt import Prototxt

Inputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Operator:
    """One row.

    `inputs`: the arrays, in the order of the layer's bottoms. `ncnn`: the line of a .param file that does the
    same, or "". `opencv`: whether OpenCV's Caffe importer has the layer. `note`: what the name does not say.
    """

    name: str
    kind: str
    params: Mapping[str, Any]
    inputs: Callable[[], Inputs]
    dialect: str | None = None
    weights: tuple[np.ndarray, ...] = ()
    layers: tuple[str, ...] = ()
    ncnn: str = ""
    opencv: bool = True
    tolerance: float = 1e-4
    note: str = ""
    ncnn_weights: tuple[np.ndarray, ...] = field(default=())

    def text(self) -> str:
        """Return the prototxt of the network."""
        net = Prototxt(self.name)
        bottoms = [net.input(name, array.shape) for name, array in self.inputs().items()]
        net.layer("y", self.kind, bottoms, **self.params)
        return net.text()


def noise(*shape: int) -> np.ndarray:
    """Return seeded, normally distributed float32 values."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _x(*shape: int) -> Callable[[], Inputs]:
    return lambda: {"x": noise(*shape)}


def detections(background: float) -> Inputs:
    """Return SSD300's 8732 boxes of 21 classes: seeded offsets, softmax scores and the priors of six maps. The
    higher `background`, the fewer boxes exceed the threshold.
    """
    random = np.random.default_rng(0)
    loc = random.standard_normal((1, 8732 * 4)).astype(np.float32) * np.float32(0.5)
    logits = random.standard_normal((8732, 21)).astype(np.float32) * np.float32(2.0)
    logits[:, 0] += np.float32(background)
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)
    return {"loc": loc, "conf": scores.reshape(1, -1).astype(np.float32), "prior": priors()}


def priors() -> np.ndarray:
    """Return the priors (1, 2, 8732 * 4): boxes with 4 or 6 shapes on maps of 38, 19, 10, 5, 3, 1 cells, and their
    variances.
    """
    boxes = []
    maps = ((38, 4, 0.1), (19, 6, 0.2), (10, 6, 0.37), (5, 6, 0.54), (3, 4, 0.71), (1, 4, 0.88))
    for side, shapes, size in maps:
        centre = (np.arange(side) + 0.5) / side
        y, x, s = np.meshgrid(centre, centre, np.linspace(0.7, 1.4, shapes), indexing="ij")
        half_w, half_h = size * s / 2, size / s / 2
        boxes.append(np.stack([x - half_w, y - half_h, x + half_w, y + half_h], axis=-1).reshape(-1))
    corners = np.concatenate(boxes)
    variances = np.tile([0.1, 0.1, 0.2, 0.2], corners.size // 4)
    return np.stack([corners, variances])[None].astype(np.float32)


def regions() -> Inputs:
    """Return a feature map and 100 regions of it, in a picture that is 16 times as large."""
    random = np.random.default_rng(0)
    near = random.uniform(0, 400, (100, 2))
    corners = np.concatenate([near, near + random.uniform(32, 390, (100, 2))], axis=1)
    rois = np.concatenate([np.zeros((100, 1)), corners], axis=1).astype(np.float32)
    return {"x": noise(1, 256, 50, 50), "rois": rois}


def grid() -> Inputs:
    """Return a map and sampling points: a rotated grid with seeded noise, partly outside the map."""
    y, x = np.meshgrid(np.linspace(-1, 1, 64), np.linspace(-1, 1, 64), indexing="ij")
    random = np.random.default_rng(0)
    rotated = np.stack([0.9 * x + 0.3 * y, -0.3 * x + 0.9 * y], axis=-1)
    places = rotated + random.uniform(-0.02, 0.02, rotated.shape)
    return {"x": noise(1, 64, 64, 64), "grid": places[None].astype(np.float32)}


def pooled() -> Inputs:
    """Return the result of a max pooling of a 128 x 128 map, and its mask."""
    random = np.random.default_rng(0)
    dy, dx = random.integers(0, 2, (2, 1, 64, 64, 64))
    y, x = np.meshgrid(np.arange(64), np.arange(64), indexing="ij")
    mask = (2 * y + dy) * 128 + 2 * x + dx
    return {"x": noise(1, 64, 64, 64), "mask": mask.astype(np.float32)}


_SCALE = np.linspace(1, 20, 512, dtype=np.float32)
_DETECTION = {"detection_output_param": DETECTION}
_PRIOR = {
    "prior_box_param": {
        "min_size": 30.0,
        "max_size": 60.0,
        "aspect_ratio": [2.0, 3.0],
        "flip": True,
        "clip": False,
        "variance": [0.1, 0.1, 0.2, 0.2],
        "offset": 0.5,
    }
}
_NCNN_DETECTION = "DetectionOutput y 3 1 loc conf prior y 0=21 1=0.45 2=400 3=200 4=0.01"

OPERATORS = (
    Operator(
        "interp_1x64x65x65_to_129",
        "Interp",
        {"interp_param": {"height": 129, "width": 129}},
        _x(1, 64, 65, 65),
        ncnn="Interp y 1 1 x y 0=2 3=129 4=129 6=1",
    ),
    Operator(
        "upsample_nearest2_1x128x26x26",
        "Upsample",
        {"upsample_param": {"scale": 2}},
        _x(1, 128, 26, 26),
        dialect="mobilenet-yolo",
        ncnn="Interp y 1 1 x y 0=1 1=2.0 2=2.0",
        opencv=False,
    ),
    Operator(
        "normalize_1x512x38x38",
        "Normalize",
        {"norm_param": {"across_spatial": False, "channel_shared": False}},
        _x(1, 512, 38, 38),
        weights=(_SCALE,),
        ncnn="Normalize y 1 1 x y 0=0 1=0 2=1e-10 3=512 9=0",
        ncnn_weights=(_SCALE,),
    ),
    Operator(
        "reorg_s2_1x64x26x26",
        "Reorg",
        {"reorg_param": {"stride": 2}},
        _x(1, 64, 26, 26),
        dialect="mobilenet-yolo",
    ),
    Operator(
        "space_to_depth2_1x64x26x26",
        "PassThrough",
        {"reorg_param": {"stride": 2}},
        _x(1, 64, 26, 26),
        dialect="ascend",
        opencv=False,
    ),
    Operator(
        "shuffle_g3_1x240x28x28",
        "ShuffleChannel",
        {"shuffle_channel_param": {"group": 3}},
        _x(1, 240, 28, 28),
        ncnn="ShuffleChannel y 1 1 x y 0=3",
    ),
    Operator(
        "permute_1x24x38x38",
        "Permute",
        {"permute_param": {"order": [0, 2, 3, 1]}},
        _x(1, 24, 38, 38),
        ncnn="Permute y 1 1 x y 0=3",
    ),
    Operator(
        "permute_1x256x64x64",
        "Permute",
        {"permute_param": {"order": [0, 2, 3, 1]}},
        _x(1, 256, 64, 64),
        ncnn="Permute y 1 1 x y 0=3",
    ),
    Operator(
        "leaky_1x96x55x55",
        "ReLU",
        {"relu_param": {"negative_slope": 0.1}},
        _x(1, 96, 55, 55),
        ncnn="ReLU y 1 1 x y 0=0.1",
    ),
    Operator(
        "priorbox_38x38x6",
        "PriorBox",
        _PRIOR,
        lambda: {"x": noise(1, 8, 38, 38), "data": noise(1, 3, 300, 300)},
        ncnn="PriorBox y 2 1 x data y -23300=1,30.0 -23301=1,60.0 -23302=2,2.0,3.0 3=0.1 4=0.1 5=0.2 6=0.2 7=1 8=0"
        " 9=-233 10=-233 11=-233.0 12=-233.0 13=0.5",
        note="depends on shapes alone: a constant to anylayer",
    ),
    Operator(
        "detout_sparse_ssd300", "DetectionOutput", _DETECTION, lambda: detections(10.5), ncnn=_NCNN_DETECTION
    ),
    Operator("detout_ssd300", "DetectionOutput", _DETECTION, lambda: detections(8.0), ncnn=_NCNN_DETECTION),
    Operator(
        "roialign_1x256x50x50_100x7x7",
        "ROIAlign",
        {"roi_align_param": {"pooled_h": 7, "pooled_w": 7, "spatial_scale": 0.0625, "sampling_ratio": 2}},
        regions,
        dialect="ascend",
        opencv=False,
    ),
    Operator(
        "gridsample_1x64x64x64",
        "GridSample",
        {},
        grid,
        layers=("GridSample=grid_sample_layer.py:GridSample",),
        ncnn="GridSample y 2 1 x grid y 0=1 1=1 2=0",
        opencv=False,
        note="a user's layer over ops.grid_sample",
    ),
    Operator(
        "maxunpool_1x64x64x64_to_128",
        "Upsample",
        {"upsample_param": {"scale": 2}},
        pooled,
        dialect="segnet",
        opencv=False,
    ),
)
