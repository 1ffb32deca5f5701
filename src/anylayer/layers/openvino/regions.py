"""Boxes, regions and anchors. The operations that OpenVINO took over from Caffe are computed by its layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, Registry, attribute, bind, layer, need, samples
from anylayer.layer.arguments import axis_of, integer, integers
from anylayer.layers._proposals import check_fields, proposals
from anylayer.layers.openvino._base import OpenVINOLayer
from anylayer.network import Array, Node, TensorType


class FromCaffe(OpenVINOLayer):
    """An operation that Intel's fork of Caffe has as a layer with other names of attributes."""

    def by_caffe(self, type_: str, params: Mapping[str, Any], inputs: Sequence[Any]) -> list[Array]:
        """Return the outputs of Caffe's layer `type_` for these params and inputs."""
        node = Node(
            name=self.name,
            type=type_,
            inputs=[f"in{i}" for i in range(len(inputs))],
            outputs=[f"out{i}" for i in range(self.outputs)],
            params=dict(params),
        )
        types = [TensorType(tuple(x.shape), x.dtype) for x in inputs]
        bound = bind(node, Registry.of("caffe").find(type_), types, "openvino")
        results = bound(list(inputs))
        for text in bound.notes:
            self.note(text)
        return results

    def attributes_in_file(self, **names: str) -> dict[str, Any]:
        """Return the attributes that the file contains, under the names of Caffe's fields."""
        attributes = {}
        for field, name in names.items():
            value = getattr(self, name)
            if self.has(name) and value != ():
                attributes[field] = list(value) if isinstance(value, tuple) else value
        return attributes


@layer("RegionYolo")
class RegionYolo(FromCaffe):
    """Apply YOLO's activations to a map of box predictions.

    (N, boxes * (coords + 1 + classes), H, W). With do_softmax, softmax over the classes and a flat output over the
    axes from `axis` to `end_axis`; else the logistic function, and the shape of the input. The objectness and the
    first two coordinates go through the logistic function.
    Source: OpenVINO operation specification, RegionYolo-1.
    """

    coords: int = attribute("int64")
    classes: int = attribute("int64")
    num: int = attribute("int64")
    do_softmax: bool = attribute("bool", True)
    mask: tuple[int, ...] = attribute("int64", (), repeated=True)
    axis: int = attribute("int64", 1)
    end_axis: int = attribute("int64", -1)
    anchors: tuple[float, ...] = attribute("float", (), repeated=True)

    def forward(self, x: Array) -> list[Array]:
        region = {
            "coords": self.coords,
            "classes": self.classes,
            "num": self.num,
            "do_softmax": int(self.do_softmax),
            "mask": list(self.mask),
        }
        flat = {"axis": self.axis, "end_axis": self.end_axis}
        return self.by_caffe("RegionYolo", {"region_yolo_param": region, "flatten_param": flat}, [x])


@layer("ReorgYolo")
class ReorgYolo(FromCaffe):
    """Move pixels into channels in the order of Darknet.

    (N, C, H, W) to (N, C * s * s, H / s, W / s) for stride s.
    Source: OpenVINO operation specification, ReorgYolo-2.
    """

    stride: tuple[int, ...] = attribute("int64", repeated=True)

    def forward(self, x: Array) -> list[Array]:
        need(len(set(self.stride)) == 1, f"stride must have one value, got {list(self.stride)}")
        return self.by_caffe("ReorgYolo", {"reorg_yolo_param": {"stride": self.stride[0]}}, [x])


class _Priors(FromCaffe):
    """What PriorBox and PriorBoxClustered share."""

    def laid(self, type_: str, params: Mapping[str, Any], cells: Array, image: Array) -> Any:
        """Return the boxes and variances (2, 4 * P) for the sizes of a feature map and of an image."""
        rows = [np.broadcast_to(np.float32(0), (1, 1, *integers(v, "a size"))) for v in (cells, image)]
        need(all(len(r.shape) == 4 for r in rows), "each size must be two numbers, height and width")
        return np.asarray(self.by_caffe(type_, {"prior_box_param": dict(params)}, rows)[0])[0]


@layer("PriorBox")
class PriorBox(_Priors):
    """Return SSD's prior boxes for each cell of a feature map, and their variances: (2, 4 * P).

    Inputs: (height, width) of the feature map and of the image, both constants.
    Source: OpenVINO operation specification, PriorBox-1 and PriorBox-8.
    """

    min_size: tuple[float, ...] = attribute("float", (), repeated=True)
    max_size: tuple[float, ...] = attribute("float", (), repeated=True)
    aspect_ratio: tuple[float, ...] = attribute("float", (), repeated=True)
    density: tuple[float, ...] = attribute("float", (), repeated=True)
    fixed_ratio: tuple[float, ...] = attribute("float", (), repeated=True)
    fixed_size: tuple[float, ...] = attribute("float", (), repeated=True)
    clip: bool = attribute("bool", False)
    flip: bool = attribute("bool", False)
    step: float = attribute("float", 0.0)
    offset: float = attribute("float", 0.0)
    variance: tuple[float, ...] = attribute("float", (), repeated=True)
    scale_all_sizes: bool = attribute("bool", True)
    min_max_aspect_ratios_order: bool = attribute("bool", True)

    def forward(self, cells: Array, image: Array) -> Any:
        for name in ("density", "fixed_ratio", "fixed_size"):
            need(not getattr(self, name), f"{name} is not supported")
        need(self.scale_all_sizes, "scale_all_sizes: false is not supported")
        need(
            self.min_max_aspect_ratios_order or not self.max_size,
            "min_max_aspect_ratios_order: false with a max_size is not supported",
        )
        params = self.attributes_in_file(
            min_size="min_size",
            max_size="max_size",
            aspect_ratio="aspect_ratio",
            variance="variance",
            step="step",
        )
        params.update(clip=int(self.clip), flip=int(self.flip), offset=self.offset)
        return self.laid("PriorBox", params, cells, image)


@layer("PriorBoxClustered")
class PriorBoxClustered(_Priors):
    """Return prior boxes of given widths and heights for each cell of a feature map: (2, 4 * P).

    Inputs: (height, width) of the feature map and of the image, both constants. The second row holds the
    variances.
    Source: OpenVINO operation specification, PriorBoxClustered-1.
    """

    width: tuple[float, ...] = attribute("float", repeated=True)
    height: tuple[float, ...] = attribute("float", repeated=True)
    clip: bool = attribute("bool", True)
    step: float = attribute("float", 0.0)
    step_w: float = attribute("float", 0.0)
    step_h: float = attribute("float", 0.0)
    offset: float = attribute("float")
    variance: tuple[float, ...] = attribute("float", (), repeated=True)

    def forward(self, cells: Array, image: Array) -> Any:
        params = self.attributes_in_file(width="width", height="height", variance="variance")
        step_h, step_w = self.step_h or self.step, self.step_w or self.step
        if step_h or step_w:
            params.update(step_h=step_h, step_w=step_w)
        params.update(clip=int(self.clip), offset=self.offset)
        return self.laid("PriorBoxClustered", params, cells, image)


@layer("DetectionOutput")
class DetectionOutput(FromCaffe):
    """Decode SSD's boxes and keep the best of each class: rows (1, 1, D, 7).

    Inputs: box offsets (N, 4 * P), confidences (N, P * classes), priors (1, 2, 4 * P). A row is (image, label,
    score, x1, y1, x2, y2). OpenVINO writes N * keep_top_k rows and marks the first unused row by -1; this layer
    returns the D rows before.
    Source: OpenVINO operation specification, DetectionOutput-1 and DetectionOutput-8.
    """

    samples: ClassVar = {1: samples.scores, 2: samples.priors}
    num_classes: int = attribute("int64", 0)
    background_label_id: int = attribute("int64", 0)
    top_k: int = attribute("int64", -1)
    variance_encoded_in_target: bool = attribute("bool", False)
    keep_top_k: tuple[int, ...] = attribute("int64", repeated=True)
    code_type: str = attribute("string", "caffe.PriorBoxParameter.CORNER")
    share_location: bool = attribute("bool", True)
    nms_threshold: float = attribute("float")
    confidence_threshold: float = attribute("float", 0.0)
    clip_after_nms: bool = attribute("bool", False)
    clip_before_nms: bool = attribute("bool", False)
    decrease_label_id: bool = attribute("bool", False)
    normalized: bool = attribute("bool", False)
    input_height: int = attribute("int64", 1)
    input_width: int = attribute("int64", 1)
    objectness_score: float = attribute("float", 0.0)

    def forward(self, loc: Array, conf: Array, priors: Array, *more: Array) -> list[Array]:
        rule = "the inputs 3 and 4, results of a detection before this one, are not supported"
        need(not more, f"takes 3 inputs, got {3 + len(more)}: {rule}")
        for name in ("clip_after_nms", "clip_before_nms", "decrease_label_id"):
            need(not getattr(self, name), f"{name} is not supported")
        need(self.normalized, "normalized: false (priors of 5 values, in pixels) is not supported")
        classes = self.num_classes
        if self.opset >= 8 or not classes:
            count = priors.shape[-1] // 4
            need(
                count and conf.shape[1] % count == 0,
                f"{conf.shape[1]} confidences are not a multiple of {count} priors",
            )
            classes = conf.shape[1] // count
        background = (
            self.background_label_id if self.background_label_id >= 0 else classes
        )  # the index of no class
        params = {
            "num_classes": classes,
            "share_location": int(self.share_location),
            "background_label_id": background,
            "nms_param": {"nms_threshold": self.nms_threshold, "top_k": self.top_k},
            "code_type": self.code_type.rpartition(".")[2].upper(),
            "keep_top_k": self.keep_top_k[0],
            "variance_encoded_in_target": int(self.variance_encoded_in_target),
            "confidence_threshold": self.confidence_threshold,
        }
        return self.by_caffe("DetectionOutput", {"detection_output_param": params}, [loc, conf, priors])


@layer("Proposal")
class Proposal(OpenVINOLayer):
    """Return Faster R-CNN's regions of interest, best first, and their scores.

    Inputs: scores (1, 2 * A, H, W), box offsets (1, 4 * A, H, W), image (height, width, scale). Rows are (0, x1,
    y1, x2, y2). clip_before_nms clips boxes to 0..width - 1 and 0..height - 1, clip_after_nms clips regions to
    0..width and 0..height. OpenVINO writes N * post_nms_topn rows and marks the first unused row by -1; this layer
    returns the rows before.
    Source: OpenVINO operation specification, Proposal-1 and Proposal-4.
    """

    samples: ClassVar = {0: samples.scores, 2: samples.picture}
    base_size: int = attribute("int64")
    pre_nms_topn: int = attribute("int64")
    post_nms_topn: int = attribute("int64")
    nms_thresh: float = attribute("float")
    feat_stride: int = attribute("int64")
    min_size: int = attribute("int64")
    ratio: tuple[float, ...] = attribute("float", repeated=True)
    scale: tuple[float, ...] = attribute("float", repeated=True)
    clip_before_nms: bool = attribute("bool", True)
    clip_after_nms: bool = attribute("bool", False)
    normalize: bool = attribute("bool", False)
    box_size_scale: float = attribute("float", 1.0)
    box_coordinate_scale: float = attribute("float", 1.0)
    framework: str = attribute("string", "")

    def forward(self, scores: Array, deltas: Array, info: Array) -> list[Array]:
        need(not self.normalize, "normalize: true is not supported")
        for name in ("box_size_scale", "box_coordinate_scale"):
            need(getattr(self, name) == 1, f"a {name} other than 1 is not supported, got {getattr(self, name):g}")
        need(not self.framework, f"framework '{self.framework}' is not supported")
        check_fields(self)
        before, after = self.clip_before_nms, self.clip_after_nms
        return proposals(self, scores, deltas, info, clip_before=before, clip_after=after)[: self.outputs]


@layer("PSROIPooling")
class PSROIPooling(FromCaffe):
    """Compute the mean of each bin of each region, each bin from channels of its own.

    x (N, output_dim * group_size^2, H, W) and regions (R, 5) to (R, output_dim, group_size, group_size).
    Source: OpenVINO operation specification, PSROIPooling-1.
    """

    samples: ClassVar = {1: samples.regions}
    output_dim: int = attribute("int64")
    group_size: int = attribute("int64", 1)
    spatial_scale: float = attribute("float")
    mode: str = attribute(Enum("average", "bilinear"), "average")
    spatial_bins_x: int = attribute("int64", 1)
    spatial_bins_y: int = attribute("int64", 1)

    def forward(self, x: Array, rois: Array) -> list[Array]:
        need(self.mode == "average", f"mode '{self.mode}' is not supported; supported: average")
        params = {
            "output_dim": self.output_dim,
            "group_size": self.group_size,
            "spatial_scale": self.spatial_scale,
        }
        return self.by_caffe("PSROIPooling", {"psroi_pooling_param": params}, [x, rois])


@layer("ROIPooling")
class ROIPooling(FromCaffe):
    """Compute the maximum of each bin of each region.

    x (N, C, H, W) and regions (R, 5) to (R, C, pooled_h, pooled_w).
    Source: OpenVINO operation specification, ROIPooling-1, ROIPooling-2.
    """

    samples: ClassVar = {1: samples.regions}
    method: str = attribute(Enum("max", "bilinear"), "max")
    output_size: tuple[int, ...] = attribute("int64", (), repeated=True)
    pooled_h: int = attribute("int64", 0)
    pooled_w: int = attribute("int64", 0)
    output_roi: tuple[int, ...] = attribute("int64", (), repeated=True)
    spatial_scale: float = attribute("float")

    def forward(self, x: Array, rois: Array) -> list[Array]:
        need(self.method == "max", f"method '{self.method}' is not supported; supported: max")
        size = (self.pooled_h, self.pooled_w) if self.pooled_h else (*self.output_roi, *self.output_size)
        need(len(size) == 2, f"the output's size must have two numbers, got {list(size)}")
        params = {"pooled_h": size[0], "pooled_w": size[1], "spatial_scale": self.spatial_scale}
        return self.by_caffe("ROIPooling", {"roi_pooling_param": params}, [x, rois])


@layer("ROIAlign")
class ROIAlign(OpenVINOLayer):
    """Compute the mean of interpolated samples in each bin of each region.

    x (N, C, H, W), regions (R, 4) and their image indices (R,) to (R, C, pooled_h, pooled_w).
    Source: OpenVINO operation specification, ROIAlign-3 and ROIAlign-9.
    """

    samples: ClassVar = {1: samples.boxes, 2: samples.indices}
    pooled_h: int = attribute("int64")
    pooled_w: int = attribute("int64")
    sampling_ratio: int = attribute("int64")
    spatial_scale: float = attribute("float")
    mode: str = attribute(Enum("avg", "max"))
    aligned_mode: str = attribute(Enum("asymmetric", "half_pixel_for_nn", "half_pixel"), "asymmetric")

    def forward(self, x: Array, rois: Array, batch: Array) -> Array:
        need(
            self.mode == "avg",
            "mode 'max' is not supported, because OpenVINO takes the maximum of weighted corners; supported: avg",
        )
        if self.aligned_mode == "half_pixel":
            rois = rois + rois.dtype.type(0.5)
        return ops.roi_align(
            x,
            rois,
            batch.astype(np.int64),
            size=(self.pooled_h, self.pooled_w),
            spatial_scale=self.spatial_scale,
            sampling_ratio=self.sampling_ratio,
            half_pixel=self.aligned_mode != "asymmetric",
        )


@layer("GridSample")
class GridSample(OpenVINOLayer):
    """Sample an input at given points by interpolation.

    x (N, C, H, W) and points (N, H', W', 2), where -1 and 1 are the borders, to (N, C, H', W').
    Source: OpenVINO operation specification, GridSample-9.
    """

    align_corners: bool = attribute("bool", False)
    mode: str = attribute(Enum("bilinear", "bicubic", "nearest"), "bilinear")
    padding_mode: str = attribute(Enum("zeros", "border", "reflection"), "zeros")

    def forward(self, x: Array, grid: Array) -> Array:
        mode: Any = {"bilinear": "linear", "bicubic": "cubic"}.get(self.mode, self.mode)
        padding: Any = self.padding_mode
        return ops.grid_sample(x, grid, mode=mode, padding=padding, align_corners=self.align_corners)


@layer("CTCGreedyDecoderSeqLen")
class CTCGreedyDecoderSeqLen(OpenVINOLayer):
    """Return the most likely label of each step, with repeats merged and blanks removed; and the lengths.

    x (N, T, C), lengths (N,) and the index of the blank, C - 1 by default, to labels (N, T), padded with -1, and
    (N,).
    Source: OpenVINO operation specification, CTCGreedyDecoderSeqLen-6.
    """

    merge_repeated: bool = attribute("bool", True)
    classes_index_type: str = attribute(Enum("i32", "i64"), "i32")
    sequence_length_type: str = attribute(Enum("i32", "i64"), "i32")

    def forward(self, x: Array, lengths: Array, blank: Array | None = None) -> list[Array]:
        n, t, c = x.shape
        none = c - 1 if blank is None else integer(blank, "blank_index")
        axis_of(none, c, "blank_index")
        label = x.argmax(axis=2)
        is_emitted = (np.arange(t) < lengths.reshape(n, 1)) & (label != none)
        if self.merge_repeated:
            before = np.concatenate([np.full((n, 1), -1, np.int64), label[:, :-1]], axis=1)
            is_emitted = is_emitted & (label != before)
        step = np.sort(np.where(is_emitted, np.arange(t), t), axis=1)
        emitted = np.take_along_axis(label, np.minimum(step, t - 1), axis=1)
        kinds = {"i32": np.int32, "i64": np.int64}
        labels = np.where(step < t, emitted, -1).astype(kinds[self.classes_index_type])
        count = is_emitted.astype(np.int64).sum(axis=1).astype(kinds[self.sequence_length_type])
        return [labels, count][: self.outputs]
