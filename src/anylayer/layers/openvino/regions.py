"""Boxes, regions and anchors. The operations that OpenVINO took over from Caffe are computed by its layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Node, Registry, TensorType, attribute, bind, need, samples
from anylayer.layer.arguments import axis_of, integer, integers
from anylayer.layer.fields import MISSING
from anylayer.layers._arrays import decoded_labels
from anylayer.layers._proposals import check_fields, proposals
from anylayer.layers._table import operators, row
from anylayer.layers.openvino._base import SPECIFICATION, OpenVINOLayer
from anylayer.network import Function


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

    def attributes_in_file(self, *names: str) -> dict[str, Any]:
        """Return those of the attributes `names` that the file contains."""
        values = {name: getattr(self, name) for name in names if self.has(name)}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in values.items() if v != ()}


Computed = Callable[[str, Mapping[str, Any], Sequence[Any]], list[Array]]
"""The method `by_caffe`."""


def _region_yolo(x: Array, axis: int, end_axis: int, anchors: Any, *, by_caffe: Computed, **region: Any) -> Any:
    values = {name: list(v) if isinstance(v, tuple) else int(v) for name, v in region.items()}
    params = {"region_yolo_param": values, "flatten_param": {"axis": axis, "end_axis": end_axis}}
    return by_caffe("RegionYolo", params, [x])


def _reorg_yolo(x: Array, stride: Sequence[int], *, by_caffe: Computed) -> Any:
    need(len(set(stride)) == 1, f"stride must have one value, got {list(stride)}")
    return by_caffe("ReorgYolo", {"reorg_yolo_param": {"stride": stride[0]}}, [x])


def _priors(by_caffe: Computed, type_: str, params: Mapping[str, Any], cells: Array, image: Array) -> Array:
    """Return the boxes and variances (2, 4 * P) for the sizes of a feature map and of an image."""
    rows = [np.broadcast_to(np.float32(0), (1, 1, *integers(v, "a size"))) for v in (cells, image)]
    need(all(len(r.shape) == 4 for r in rows), "each size must be two numbers, height and width")
    return np.asarray(by_caffe(type_, {"prior_box_param": dict(params)}, rows)[0])[0]


def _prior_box(
    cells: Array, image: Array, *, by_caffe: Computed, attributes_in_file: Function, **fields: Any
) -> Array:
    for name in ("density", "fixed_ratio", "fixed_size"):
        need(not fields[name], f"{name} is not supported")
    need(fields["scale_all_sizes"], "scale_all_sizes: false is not supported")
    need(
        fields["min_max_aspect_ratios_order"] or not fields["max_size"],
        "min_max_aspect_ratios_order: false with a max_size is not supported",
    )
    params = attributes_in_file("min_size", "max_size", "aspect_ratio", "variance", "step")
    params.update(clip=int(fields["clip"]), flip=int(fields["flip"]), offset=fields["offset"])
    return _priors(by_caffe, "PriorBox", params, cells, image)


def _prior_box_clustered(
    cells: Array, image: Array, *, by_caffe: Computed, attributes_in_file: Function, **fields: Any
) -> Array:
    params = attributes_in_file("width", "height", "variance")
    step_h, step_w = (fields[name] or fields["step"] for name in ("step_h", "step_w"))
    if step_h or step_w:
        params.update(step_h=step_h, step_w=step_w)
    params.update(clip=int(fields["clip"]), offset=fields["offset"])
    return _priors(by_caffe, "PriorBoxClustered", params, cells, image)


def _detection_output(
    loc: Array, conf: Array, priors: Array, *more: Array, opset: int, by_caffe: Computed, **fields: Any
) -> Any:
    rule = "the inputs 3 and 4, results of a detection before this one, are not supported"
    need(not more, f"takes 3 inputs, got {3 + len(more)}: {rule}")
    own = SimpleNamespace(**fields)
    for name in ("clip_after_nms", "clip_before_nms", "decrease_label_id"):
        need(not fields[name], f"{name} is not supported")
    need(own.normalized, "normalized: false (priors of 5 values, in pixels) is not supported")
    classes = own.num_classes
    if opset >= 8 or not classes:
        count = priors.shape[-1] // 4
        need(
            count and conf.shape[1] % count == 0,
            f"{conf.shape[1]} confidences are not a multiple of {count} priors",
        )
        classes = conf.shape[1] // count
    background = own.background_label_id if own.background_label_id >= 0 else classes  # the index of no class
    params = {
        "num_classes": classes,
        "share_location": int(own.share_location),
        "background_label_id": background,
        "nms_param": {"nms_threshold": own.nms_threshold, "top_k": own.top_k},
        "code_type": own.code_type.rpartition(".")[2].upper(),
        "keep_top_k": own.keep_top_k[0],
        "variance_encoded_in_target": int(own.variance_encoded_in_target),
        "confidence_threshold": own.confidence_threshold,
    }
    return by_caffe("DetectionOutput", {"detection_output_param": params}, [loc, conf, priors])


def _proposal(scores: Array, deltas: Array, info: Array, *, outputs: int, **fields: Any) -> list[Array]:
    need(not fields["normalize"], "normalize: true is not supported")
    for name in ("box_size_scale", "box_coordinate_scale"):
        need(fields[name] == 1, f"a {name} other than 1 is not supported, got {fields[name]:g}")
    need(not fields["framework"], f"framework '{fields['framework']}' is not supported")
    params: Any = SimpleNamespace(**fields)
    check_fields(params)
    before, after = params.clip_before_nms, params.clip_after_nms
    return proposals(params, scores, deltas, info, clip_before=before, clip_after=after)[:outputs]


def _psroi_pooling(x: Array, rois: Array, mode: str, *, by_caffe: Computed, **params: Any) -> Any:
    need(mode == "average", f"mode '{mode}' is not supported; supported: average")
    return by_caffe("PSROIPooling", {"psroi_pooling_param": params}, [x, rois])


def _roi_pooling(x: Array, rois: Array, method: str, *, by_caffe: Computed, **fields: Any) -> Any:
    need(method == "max", f"method '{method}' is not supported; supported: max")
    size = (fields["pooled_h"], fields["pooled_w"])
    if not size[0]:
        size = (*fields["output_roi"], *fields["output_size"])
    need(len(size) == 2, f"the output's size must have two numbers, got {list(size)}")
    params = {"pooled_h": size[0], "pooled_w": size[1], "spatial_scale": fields["spatial_scale"]}
    return by_caffe("ROIPooling", {"roi_pooling_param": params}, [x, rois])


def _roi_align(
    x: Array, rois: Array, batch: Array, pooled_h: int, pooled_w: int, mode: str, aligned_mode: str, **how: Any
) -> Array:
    need(
        mode == "avg",
        "mode 'max' is not supported, because OpenVINO takes the maximum of weighted corners; supported: avg",
    )
    if aligned_mode == "half_pixel":
        rois = rois + rois.dtype.type(0.5)
    half, size = aligned_mode != "asymmetric", (pooled_h, pooled_w)
    return ops.roi_align(x, rois, batch.astype(np.int64), size=size, half_pixel=half, **how)


_SAMPLING: Any = {"bilinear": "linear", "bicubic": "cubic"}
_INTEGERS = {"i32": np.int32, "i64": np.int64}


def _ctc(
    x: Array,
    lengths: Array,
    blank_index: int | None = None,
    *,
    merge_repeated: bool,
    classes_index_type: str,
    sequence_length_type: str,
    outputs: int,
) -> list[Array]:
    n, t, c = x.shape
    blank = c - 1 if blank_index is None else blank_index
    axis_of(blank, c, "blank_index")
    label = x.argmax(axis=2)
    within = np.arange(t) < lengths.reshape(n, 1)
    labels, is_emitted = decoded_labels(label, within & (label != blank), merge_repeated)
    count = is_emitted.astype(np.int64).sum(axis=1).astype(_INTEGERS[sequence_length_type])
    return [labels.astype(_INTEGERS[classes_index_type]), count][:outputs]


def _int(default: Any = MISSING) -> Any:
    return attribute("int64", default)


def _float(default: Any = MISSING) -> Any:
    return attribute("float", default)


def _bool(default: Any = MISSING) -> Any:
    return attribute("bool", default)


_FLOATS, _INTS = attribute("float", (), repeated=True), attribute("int64", (), repeated=True)
_SOME_FLOATS = attribute("float", repeated=True)

operators(
    FromCaffe,
    SPECIFICATION,
    {
        "RegionYolo": row("Apply YOLO's activations to a map of box predictions.", _region_yolo, "RegionYolo-1",
            "(N, boxes * (coords + 1 + classes), H, W). With do_softmax, softmax over the classes and a flat "
            "output over the axes from `axis` to `end_axis`; else the logistic function, and the shape of the "
            "input. The objectness and the first two coordinates go through the logistic function.",
            coords=_int(), classes=_int(), num=_int(), do_softmax=_bool(True), mask=_INTS, axis=_int(1),
            end_axis=_int(-1), anchors=_FLOATS),
        "ReorgYolo": row("Move pixels into channels in the order of Darknet.", _reorg_yolo, "ReorgYolo-2",
            "(N, C, H, W) to (N, C * s * s, H / s, W / s) for stride s.",
            stride=attribute("int64", repeated=True)),
        "PriorBox": row(
            "Return SSD's prior boxes for each cell of a feature map, and their variances: (2, 4 * P).",
            _prior_box, "PriorBox-1 and PriorBox-8",
            "Inputs: (height, width) of the feature map and of the image, both constants.",
            min_size=_FLOATS, max_size=_FLOATS, aspect_ratio=_FLOATS, density=_FLOATS, fixed_ratio=_FLOATS,
            fixed_size=_FLOATS, clip=_bool(False), flip=_bool(False), step=_float(0.0), offset=_float(0.0),
            variance=_FLOATS, scale_all_sizes=_bool(True), min_max_aspect_ratios_order=_bool(True)),
        "PriorBoxClustered": row(
            "Return prior boxes of given widths and heights for each cell of a feature map: (2, 4 * P).",
            _prior_box_clustered, "PriorBoxClustered-1",
            "Inputs: (height, width) of the feature map and of the image, both constants. The second row holds "
            "the variances.",
            width=_SOME_FLOATS, height=_SOME_FLOATS, clip=_bool(True), step=_float(0.0), step_w=_float(0.0),
            step_h=_float(0.0), offset=_float(), variance=_FLOATS),
        "DetectionOutput": row(
            "Decode SSD's boxes and keep the best of each class: rows (1, 1, D, 7).", _detection_output,
            "DetectionOutput-1 and DetectionOutput-8",
            "Inputs: box offsets (N, 4 * P), confidences (N, P * classes), priors (1, 2, 4 * P). A row is (image, "
            "label, score, x1, y1, x2, y2). OpenVINO writes N * keep_top_k rows and marks the first unused row by "
            "-1; this layer returns the D rows before.",
            {"samples": {1: samples.scores, 2: samples.priors}},
            num_classes=_int(0), background_label_id=_int(0), top_k=_int(-1),
            variance_encoded_in_target=_bool(False), keep_top_k=attribute("int64", repeated=True),
            code_type=attribute("string", "caffe.PriorBoxParameter.CORNER"), share_location=_bool(True),
            nms_threshold=_float(), confidence_threshold=_float(0.0), clip_after_nms=_bool(False),
            clip_before_nms=_bool(False), decrease_label_id=_bool(False), normalized=_bool(False),
            input_height=_int(1), input_width=_int(1), objectness_score=_float(0.0)),
        "Proposal": row("Return Faster R-CNN's regions of interest, best first, and their scores.", _proposal,
            "Proposal-1 and Proposal-4",
            "Inputs: scores (1, 2 * A, H, W), box offsets (1, 4 * A, H, W), image (height, width, scale). Rows "
            "are (0, x1, y1, x2, y2). clip_before_nms clips boxes to 0..width - 1 and 0..height - 1, "
            "clip_after_nms clips regions to 0..width and 0..height. OpenVINO writes N * post_nms_topn rows "
            "and marks the first unused row by -1; this layer returns the rows before.",
            {"samples": {0: samples.scores, 2: samples.picture}},
            base_size=_int(), pre_nms_topn=_int(), post_nms_topn=_int(), nms_thresh=_float(),
            feat_stride=_int(), min_size=_int(), ratio=_SOME_FLOATS, scale=_SOME_FLOATS,
            clip_before_nms=_bool(True), clip_after_nms=_bool(False), normalize=_bool(False),
            box_size_scale=_float(1.0), box_coordinate_scale=_float(1.0), framework=attribute("string", "")),
        "PSROIPooling": row("Compute the mean of each bin of each region, each bin from channels of its own.",
            _psroi_pooling, "PSROIPooling-1",
            "x (N, output_dim * group_size^2, H, W) and regions (R, 5) to (R, output_dim, group_size, "
            "group_size).",
            {"samples": {1: samples.regions}, "spatial_bins_x": _int(1), "spatial_bins_y": _int(1)},
            output_dim=_int(), group_size=_int(1), spatial_scale=_float(),
            mode=attribute(Enum("average", "bilinear"), "average")),
        "ROIPooling": row("Compute the maximum of each bin of each region.", _roi_pooling,
            "ROIPooling-1, ROIPooling-2", "x (N, C, H, W) and regions (R, 5) to (R, C, pooled_h, pooled_w).",
            {"samples": {1: samples.regions}}, method=attribute(Enum("max", "bilinear"), "max"),
            output_size=_INTS, pooled_h=_int(0), pooled_w=_int(0), output_roi=_INTS, spatial_scale=_float()),
        "ROIAlign": row("Compute the mean of interpolated samples in each bin of each region.", _roi_align,
            "ROIAlign-3 and ROIAlign-9",
            "x (N, C, H, W), regions (R, 4) and their image indices (R,) to (R, C, pooled_h, pooled_w).",
            {"samples": {1: samples.boxes, 2: samples.indices}}, pooled_h=_int(), pooled_w=_int(),
            sampling_ratio=_int(), spatial_scale=_float(), mode=attribute(Enum("avg", "max")),
            aligned_mode=attribute(Enum("asymmetric", "half_pixel_for_nn", "half_pixel"), "asymmetric")),
        "GridSample": row("Sample an input at given points by interpolation.",
            lambda x, grid, mode, padding_mode, align_corners: ops.grid_sample(
                x, grid, mode=_SAMPLING.get(mode, mode), padding=padding_mode, align_corners=align_corners),
            "GridSample-9",
            "x (N, C, H, W) and points (N, H', W', 2), where -1 and 1 are the borders, to (N, C, H', W').",
            align_corners=_bool(False), mode=attribute(Enum("bilinear", "bicubic", "nearest"), "bilinear"),
            padding_mode=attribute(Enum("zeros", "border", "reflection"), "zeros")),
        "CTCGreedyDecoderSeqLen": row(
            "Return the most likely label of each step, with repeats merged and blanks removed; and the lengths.",
            _ctc, "CTCGreedyDecoderSeqLen-6",
            "x (N, T, C), lengths (N,) and the index of the blank, C - 1 by default, to labels (N, T), padded "
            "with -1, and (N,).",
            blank_index=integer, merge_repeated=_bool(True),
            classes_index_type=attribute(Enum("i32", "i64"), "i32"),
            sequence_length_type=attribute(Enum("i32", "i64"), "i32")),
    },
)  # fmt: skip
