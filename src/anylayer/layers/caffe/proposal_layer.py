"""ProposalLayer (Faster R-CNN, in Python)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.errors import nearest
from anylayer.layer import Layer, field, layer, need, samples
from anylayer.layers._detections import LOWEST
from anylayer.layers._proposals import anchors, best, boxes, check_shapes, clip_regions, foreground, large
from anylayer.layers.caffe._param_str import read_param_str
from anylayer.network import Array

_DEFAULTS: dict[str, Any] = {
    "feat_stride": None,
    "scales": [8.0, 16.0, 32.0],
    "ratios": [0.5, 1.0, 2.0],
    "base_size": 16,
    "min_size": 16,
    "pre_nms_topn": 6000,
    "post_nms_topn": 300,
    "nms_thresh": 0.7,
}
"""The entries of param_str, with the defaults of generate_anchors.py and cfg.TEST (lib/fast_rcnn/config.py)."""


@layer("ProposalLayer")
class ProposalLayer(Layer):
    """Return the regions of interest of Faster R-CNN, as the Python layer of py-faster-rcnn does.

    Scores (1, 2A, H, W), box offsets (1, 4A, H, W) and image (height, width, scale) to regions [0, x1, y1, x2, y2]
    (R, 5) and optionally scores (R, 1). R is a dynamic size, at most post_nms_topn. Boxes smaller than min_size do
    not take part. A prototxt does not contain the values of cfg.TEST: they are the defaults of py-faster-rcnn,
    unless `param_str` gives others by the names of Proposal's fields. Of equal scores the first by row, column and
    anchor is better, which argsort leaves open.
    Source: rbgirshick/py-faster-rcnn lib/rpn/proposal_layer.py, generate_anchors.py, lib/nms/nms_kernel.cu;
    YuwenXiong/py-R-FCN lib/rpn/proposal_layer.py (`scales`).
    """

    message = "python_param"
    samples: ClassVar = {0: samples.scores, 2: samples.picture}
    numbers: ClassVar = {"": 130}
    modules: ClassVar = ("rpn.proposal_layer",)
    module: str = field(1, "string", "", doc="the module of the class; must be rpn.proposal_layer")
    layer: str = field(2, "string", "", doc="name of the class")
    param_str: str = field(3, "string", "", doc="feat_stride, and values that differ from the defaults")
    share_in_parallel: bool = field(4, "bool", False, doc="for training")

    def setup(self) -> None:
        need(
            self.module in self.modules,
            f"the class ProposalLayer of module '{self.module}' is not known, only that of {self.modules[0]}; "
            "define it in a layers file as ProposalLayer, which then replaces this layer",
        )
        params = read_param_str(self.param_str)
        for name in params:
            hint = nearest(name, _DEFAULTS) or f"; it has: {', '.join(_DEFAULTS)}"
            need(name in _DEFAULTS, f"param_str has no '{name}'{hint}")
        need("feat_stride" in params, f"param_str must give feat_stride, got {self.param_str!r}")
        self.values = {name: _valid_value(name, params.get(name, value)) for name, value in _DEFAULTS.items()}
        self.feat_stride = self.values["feat_stride"]
        need(self.outputs <= 2, f"has at most 2 outputs (rois, scores), got {self.outputs}")
        defaults = [f"{name}={self.values[name]:g}" for name in list(_DEFAULTS)[4:] if name not in params]
        if defaults:
            self.note(
                f"takes py-faster-rcnn's defaults {', '.join(defaults)}; a cfg.TEST with other values is not in "
                "the prototxt: write them into param_str"
            )

    def forward(self, scores: Array, deltas: Array, info: Array) -> list[Array]:
        values = self.values
        first = anchors(values["base_size"], values["ratios"], values["scales"], half_even=True)
        check_shapes(scores, deltas, info, len(first))
        info = info.reshape(-1)
        regions = clip_regions(boxes(deltas, first, self.feat_stride), info)
        taking_part = large(regions, info[[2, 2]] * np.float32(values["min_size"]))
        score = np.where(taking_part, foreground(scores), LOWEST)
        limits = (values["pre_nms_topn"], values["post_nms_topn"])
        at, count, rois = best(regions, score, limits, values["nms_thresh"])
        return [ops.head(rois, count), ops.head(score[at], count)[:, None]][: self.outputs]


def _valid_value(name: str, value: Any) -> Any:
    """Return the value of `name` in param_str. Raise LayerError when the layer does not accept it."""
    if name in ("scales", "ratios"):
        several = value if isinstance(value, (list, tuple)) else [value]
        need(
            len(several) > 0 and all(type(v) in (int, float) and v > 0 for v in several),
            f"{name} must be a list of positive numbers, got {value!r}",
        )
        return [float(v) for v in several]
    if name == "nms_thresh":
        need(type(value) in (int, float) and 0 <= value <= 1, f"nms_thresh must lie in 0..1, got {value!r}")
        return float(value)
    least = 0 if name == "min_size" else 1
    need(type(value) is int and value >= least, f"{name} must be an integer of at least {least}, got {value!r}")
    return value
