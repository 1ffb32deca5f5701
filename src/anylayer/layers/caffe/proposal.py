"""Proposals of regions."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, nearest
from anylayer.layer import Array, Layer, field, layer, need, need_shape, samples
from anylayer.layers._detections import LOWEST, corners, kept_pairwise, overlaps_of_pixels
from anylayer.layers._proposals import (
    anchors,
    best,
    boxes,
    check_fields,
    check_shapes,
    clip_regions,
    foreground,
    large,
    proposals,
)
from anylayer.layers._resampling import plane_of
from anylayer.layers.caffe.refused import RefusedLayer

_KEY = re.compile(r"""\s*(?:'([^']*)'|"([^"]*)"|(\w+))\s*:\s*""")
_VALUE = re.compile(r"""(\[[^\[\]]*\]|'[^']*'|"[^"]*"|[^,\n\[\]{}'"]+)\s*(?:[,\n]\s*|$)""")
_TAG = re.compile(r"!!python/tuple\s*")


def read_param_str(text: str) -> dict[str, Any]:
    """Return the values of a mapping such as `'feat_stride': 16, 'scales': [8, 16]`.

    Entries are separated by commas or line ends, with or without braces. Raise LayerError for any other text.
    """
    rest = _TAG.sub("", text).strip()
    if rest.startswith("{") and rest.endswith("}"):
        rest = rest[1:-1].strip()
    values: dict[str, Any] = {}
    while rest:
        key = _KEY.match(rest)
        value = _VALUE.match(rest, key.end()) if key is not None else None
        if key is None or value is None:
            raise LayerError(
                f"param_str must be a mapping of numbers and lists of numbers, got {text!r}; it cannot be read "
                f"from {rest[:20]!r} on"
            )
        values[key[1] or key[2] or key[3]] = _literal(value[1].strip())
        rest = rest[value.end() :].strip()
    return values


def _literal(text: str) -> Any:
    """Return the value of a Python literal, such as a number or a list. Return any other text unchanged."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two for deep expressions
        return text


@layer("Proposal")
class Proposal(Layer):
    """Return the regions of interest of Faster R-CNN, best first (arXiv 1506.01497).

    Scores (1, 2A, H, W), box offsets (1, 4A, H, W) and image (height, width, scale) to regions [0, x1, y1, x2, y2]
    (R, 5) and optionally scores (R,). R is a dynamic size, at most post_nms_topn. A fourth value of the image is
    the scale of the width. Boxes are in pixels, with their ends included (width x2 - x1 + 1), also for overlaps
    (see _detections.for_overlap). Boxes smaller than min_size remain, with score 0. Of equal scores the first by
    row, column and anchor is better, which Caffe's own quicksort leaves open. Source:
    openvinotoolkit/training_toolbox_caffe src/caffe/layers/proposal_layer.cpp, src/caffe/util/nms.cpp.
    """

    message = "proposal_param"
    samples: ClassVar = {0: samples.scores, 2: samples.picture}
    numbers: ClassVar = {"": 201}
    feat_stride: int = field(1, "uint32", 16, doc="pixels per cell")
    base_size: int = field(2, "uint32", 16, doc="side of the anchor to which ratios and scales apply, in pixels")
    min_size: int = field(3, "uint32", 16, doc="smallest side of a box, in pixels of the unscaled image")
    ratio: tuple[float, ...] = field(4, "float", repeated=True, doc="height over width of the anchors")
    scale: tuple[float, ...] = field(5, "float", repeated=True, doc="sizes of the anchors, in base_size")
    pre_nms_topn: int = field(6, "uint32", 6000, doc="boxes, best first, that enter NMS")
    post_nms_topn: int = field(7, "uint32", 300, doc="largest number of boxes after NMS")
    nms_thresh: float = field(8, "float", 0.7, doc="boxes that overlap a better one by more are dropped")

    def setup(self) -> None:
        check_fields(self)
        need(self.outputs <= 2, f"has at most 2 outputs (rois, scores), got {self.outputs}")

    def forward(self, scores: Array, deltas: Array, info: Array) -> list[Array]:
        return proposals(self, scores, deltas, info, clip_before=True, clip_after=False)[: self.outputs]


@layer("Proposal", dialects=("opencv",))
class OpenCvProposal(Proposal):
    """Return the regions of interest of Faster R-CNN, padded with zeros to post_nms_topn (OpenCV).

    As Proposal, to regions (post_nms_topn, 5) and scores (post_nms_topn, 1). min_size has no effect.
    Source: opencv/opencv modules/dnn/src/layers/proposal_layer.cpp.
    """

    needs_dialect = True

    def forward(self, scores: Array, deltas: Array, info: Array) -> list[Array]:
        first = anchors(self.base_size, self.ratio, self.scale)
        check_shapes(scores, deltas, info, len(first))
        regions = clip_regions(boxes(deltas, first, self.feat_stride), info.reshape(-1))
        score = foreground(scores)
        at, count, rois = best(regions, score, (self.pre_nms_topn, self.post_nms_topn), self.nms_thresh)
        there = (np.arange(rois.shape[0]) < count)[:, None]
        missing = self.post_nms_topn - rois.shape[0]
        rows = [np.where(there, x, np.float32(0)) for x in (rois, score[at][:, None])]
        return [np.pad(x, [(0, missing), (0, 0)]) for x in rows][: self.outputs]


@layer("Proposal", dialects=("ascend",))
class AscendProposal(RefusedLayer):
    """Refuse Ascend's layer, whose padded regions (N, 5, post_nms_topn) are not supported.

    No public source states how it pads them.
    """

    message = "proposal_param"
    numbers: ClassVar = {"ascend": 201}
    reason = (
        "Ascend's Proposal, with rois of shape (N, 5, post_nms_topn), is not supported, since no public source "
        "states how it pads them and how it treats small boxes; the layer of Faster R-CNN has nms_thresh in place "
        "of iou_threshold, and no output_actual_rois_num"
    )

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        return bool({"iou_threshold", "output_actual_rois_num"} & values.keys())


@layer("Proposal", dialects=("synopsys",))
class SynopsysProposal(RefusedLayer):
    """Refuse the layer of synopsys-caffe, whose NMS compares boxes in the order of the anchors.

    Source: synopsys-caffe src/caffe/layers/proposal_layer.cpp (apply_nms).
    """

    message = "proposal_param"
    numbers: ClassVar = {"synopsys": 212}
    reason = (
        "synopsys-caffe's Proposal is not supported: it compares boxes in the order of the anchors, not of their "
        "scores, and a box that is dropped may have dropped others before"
    )

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        present = {"anchor_base_size", "anchor_scale", "anchor_ratio", "max_rois"} & values.keys()
        return bool(present) and "net_input_h" not in values


@layer("Proposal", dialects=("sophgo",))
class SophgoProposal(Layer):
    """Return the regions of interest of Faster R-CNN in the order of the anchors, padded with zeros (Sophgo).

    Scores (1, 18, H, W) and box offsets (1, 36, H, W) to regions [0, x1, y1, x2, y2] (1, 1, rpn_nms_post_top_n,
    5). The boxes are clipped to the input; those whose score exceeds rpn_obj_threshold drop each other as
    `kept_pairwise` says. They are sorted by anchor, row and column, and *rpn_nms_post_top_n cuts in this order*.
    The layer runs in Python, since it compares pairs one after the other.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "proposal_param"
    samples: ClassVar = {0: samples.scores}
    numbers: ClassVar = {"sophgo": 304}
    distinctive = frozenset({"net_input_h"})
    feat_stride: int = field(1, "uint32", 16, least=1, doc="pixels per cell")
    anchor_base_size: int = field(
        2, "uint32", 16, least=1, doc="side of the anchor to which ratios and scales apply"
    )
    rpn_obj_threshold: float = field(3, "float", 0.3, doc="scores must exceed it")
    rpn_nms_threshold: float = field(
        4, "float", 0.7, doc="boxes whose IoU with a better one exceeds it are dropped"
    )
    rpn_nms_post_top_n: int = field(5, "uint32", 300, least=1, doc="number of regions")
    net_input_h: int = field(6, "uint32", least=1, doc="rows of the network's input")
    net_input_w: int = field(7, "uint32", least=1, doc="columns of the network's input")

    def forward(self, scores: Array, deltas: Array) -> Array:
        first = anchors(self.anchor_base_size, (0.5, 1.0, 2.0), (8.0, 16.0, 32.0))
        count = len(first)
        h, w = plane_of(scores)
        for what, x, channels in (("scores", scores, 2 * count), ("offsets", deltas, 4 * count)):
            need_shape(x, (1, channels, h, w), what, about=" (Sophgo's result for a batch is not known)")
        box, score = self._decode(deltas, first).reshape(-1, 4), scores[0, count:].reshape(-1)
        candidates = np.flatnonzero(score > np.float32(self.rpn_obj_threshold))
        box, score = box[candidates], score[candidates]
        one_class = np.zeros(len(box))
        is_kept = kept_pairwise(box, one_class, score, self.rpn_nms_threshold, overlaps_of_pixels)
        box = box[is_kept][: self.rpn_nms_post_top_n]
        regions = np.zeros((1, 1, self.rpn_nms_post_top_n, 5), np.float32)
        regions[0, 0, : len(box), 1:] = box
        return regions

    def _decode(self, deltas: Array, first: Array) -> Array:
        """Return the boxes (A, H, W, 4) for offsets (1, 4 A, H, W) from anchors (A, 4), clipped to the input.

        The centres lie half a pixel before those of `boxes`.
        """
        h, w = plane_of(deltas)
        cells = np.stack(np.meshgrid(np.arange(w), np.arange(h)), -1) * np.float32(self.feat_stride)
        one = np.float32(1)
        start, size = first[:, None, None, :2] + cells, (first[:, 2:] - first[:, :2] + one)[:, None, None]
        offsets = deltas.reshape(len(first), 4, h, w).transpose(0, 2, 3, 1)
        centre = offsets[..., :2] * size + start + (size - one) * np.float32(0.5)
        last = np.array([self.net_input_w - 1, self.net_input_h - 1] * 2, np.float32)
        regions = corners(centre, np.exp(offsets[..., 2:]) * size)
        return np.clip(regions, np.float32(0), last).astype(np.float32)


_CFG_TEST = {"min_size": 16, "pre_nms_topn": 6000, "post_nms_topn": 300, "nms_thresh": 0.7}
"""The defaults of cfg.TEST (lib/fast_rcnn/config.py), which a prototxt does not contain."""
_DEFAULTS: dict[str, Any] = {
    "feat_stride": None,  # required
    "scales": [8.0, 16.0, 32.0],
    "ratios": [0.5, 1.0, 2.0],
    "base_size": 16,
    **_CFG_TEST,
}
"""The entries of param_str with their defaults: those of generate_anchors.py, then those of cfg.TEST."""


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
        self.feat_stride = self.values["feat_stride"]  # samples.picture reads it
        need(self.outputs <= 2, f"has at most 2 outputs (rois, scores), got {self.outputs}")
        defaults = [f"{name}={self.values[name]:g}" for name in _CFG_TEST if name not in params]
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
