"""Tests of layers after a Proposal or a Filter, where the number of samples is a dynamic size."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.graph import Dim
from anylayer.layer import Registry, bind
from anylayer.network import Array, TensorType
from anylayer.testing import assert_same, run_graph
from anylayer.tracing import trace
from tests.engine_names import GENERAL
from tests.layers.harness import Case, cases, noise

NOT = {
    "Accuracy": "counts the labels",
    "BoxOutput": "NMS counts the images",
    "CTCGreedyDecoder": "axis 0 is time",
    "DetectionOutput": "axis 0 is the image, another axis the box",
    "Filter": "orders the samples",
    "LSTM": "axis 0 is time",
    "LSTMUnit": "axis 0 is time",
    "Lstm": "axis 0 is time",
    "PSROIPooling": "axis 0 of the map is the image; the regions may be dynamic",
    "Proposal": "takes one image",
    "ProposalLayer": "takes one image",
    "RNN": "axis 0 is time",
    "SoftmaxWithLoss": "counts the labels",
    "SpatialTransform": "samples a map of each image",
    "SpatialTransformer": "samples a map of each image",
    "YoloDetection": "NMS counts the images",
    "YoloDetectionOutput": "takes one image",
    "Yolov3DetectionOutput": "takes one image",
}
ONE_BY_ONE = {  # these cases concern axis 0 itself, or count samples in advance
    "arg_max.test_axis", "bias.test_all_axes", "bias.test_negative_axis", "inner_product.test_axis_0",
    "data_augmentation.test_opencv_subtracts_the_mean_of_the_picture",
    "roi_pooling.test_sophgo_takes_regions_of_a_batch", "upsample.test_sophgo_undoes_a_pooling",
    "pooling.test_mask_of_an_empty_window", "power.test_power_0_is_1",
    "power.test_scale_0_is_the_power_of_the_shift", "reshape.test_all", "reshape.test_scalar",
    "reverse.test_ascend_takes_the_first", "roi_align.test_rois_in_a_row",
    "reverse.test_model_optimizer_takes_the_first",
}  # fmt: skip


def samples(case: Case) -> int:
    """Return the number of samples of all inputs, or 0 when they differ."""
    shapes = [x.shape for x in case.inputs]
    return shapes[0][0] if shapes and all(len(s) > 1 and s[0] == shapes[0][0] for s in shapes) else 0


CASES: dict[str, list[tuple[str, Case]]] = defaultdict(list)
for _name, _case in cases():
    _short = _name.removeprefix("caffe.test_")
    if _name.startswith("caffe.") and _case.type not in NOT and _short not in ONE_BY_ONE and samples(_case) > 0:
        CASES[_case.type].append((_short, _case))


@pytest.mark.parametrize("type", sorted(CASES))
def test_number_of_samples_may_be_dynamic(type: str) -> None:
    for name, case in CASES[type]:
        if name.startswith("upsample.test_unpool"):  # counts the cells of all samples
            continue
        rows = Dim("rows", samples(case) + 3)
        types = [TensorType((rows, *x.shape[1:]), x.dtype) for x in case.inputs]
        definitions = Registry.of("caffe").find(case.type)
        graph = trace(
            lambda xs, c=case, d=definitions, t=types: bind(c.node(), d, t, c.dialect)(xs),
            types,
        )
        for got, wanted in zip(run_graph(graph, list(case.inputs), "onnxruntime"), case.outputs):
            assert_same(got, wanted, name, case.tolerance)


HEAD = """
input: "data" input_shape { dim: 1 dim: 6 dim: 6 dim: 8 }
input: "info" input_shape { dim: 1 dim: 3 }
layer { name: "cls" type: "Convolution" bottom: "data" top: "cls"
  convolution_param { num_output: 18 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "box" type: "Convolution" bottom: "data" top: "box"
  convolution_param { num_output: 36 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "cls2" type: "Reshape" bottom: "cls" top: "cls2"
  reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 0 } } }
layer { name: "soft" type: "Softmax" bottom: "cls2" top: "soft" }
layer { name: "prob" type: "Reshape" bottom: "soft" top: "prob"
  reshape_param { shape { dim: 0 dim: 18 dim: -1 dim: 0 } } }
layer { name: "proposal" type: "Proposal" bottom: "prob" bottom: "box" bottom: "info" top: "rois"
  proposal_param { ratio: 0.5 ratio: 1 ratio: 2 scale: 1 scale: 2 scale: 4 nms_thresh: 0.3 post_nms_topn: 200 } }
"""
FASTER_RCNN = """
layer { name: "roi" type: "ROIPooling" bottom: "data" bottom: "rois" top: "roi"
  roi_pooling_param { pooled_w: 3 pooled_h: 3 spatial_scale: 0.0625 } }
layer { name: "flat" type: "Flatten" bottom: "roi" top: "flat" }
layer { name: "fc" type: "InnerProduct" bottom: "flat" top: "fc"
  inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "score" type: "InnerProduct" bottom: "fc" top: "score"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "move" type: "InnerProduct" bottom: "fc" top: "move"
  inner_product_param { num_output: 20 weight_filler { type: "xavier" } } }
layer { name: "chance" type: "Softmax" bottom: "score" top: "chance" }
"""
R_FCN = """
layer { name: "maps" type: "Convolution" bottom: "data" top: "maps"
  convolution_param { num_output: 45 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "moves" type: "Convolution" bottom: "data" top: "moves"
  convolution_param { num_output: 180 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "bins" type: "PSROIPooling" bottom: "maps" bottom: "rois" top: "bins"
  psroi_pooling_param { spatial_scale: 0.0625 output_dim: 5 group_size: 3 } }
layer { name: "mbins" type: "PSROIPooling" bottom: "moves" bottom: "rois" top: "mbins"
  psroi_pooling_param { spatial_scale: 0.0625 output_dim: 20 group_size: 3 } }
layer { name: "mean" type: "Pooling" bottom: "bins" top: "mean"
  pooling_param { pool: AVE kernel_size: 3 stride: 3 } }
layer { name: "mmean" type: "Pooling" bottom: "mbins" top: "mmean"
  pooling_param { pool: AVE kernel_size: 3 stride: 3 } }
layer { name: "soft2" type: "Softmax" bottom: "mean" top: "soft2" }
layer { name: "chance" type: "Reshape" bottom: "soft2" top: "chance" reshape_param { shape { dim: -1 dim: 5 } } }
layer { name: "move" type: "Reshape" bottom: "mmean" top: "move" reshape_param { shape { dim: -1 dim: 20 } } }
"""
DETECTION = """
layer { name: "chances" type: "Reshape" bottom: "chance" top: "chances"
  reshape_param { shape { dim: 1 dim: -1 } } }
layer { name: "places" type: "Reshape" bottom: "move" top: "places" reshape_param { shape { dim: 1 dim: -1 } } }
layer { name: "cut" type: "Slice" bottom: "rois" top: "image" top: "boxes" slice_param { axis: 1 slice_point: 1 } }
layer { name: "priors" type: "Reshape" bottom: "boxes" top: "priors"
  reshape_param { shape { dim: 1 dim: 1 dim: -1 dim: 1 } } }
layer { name: "found" type: "DetectionOutput" bottom: "places" bottom: "chances" bottom: "priors" top: "found"
  detection_output_param { num_classes: 5 share_location: false code_type: CENTER_SIZE keep_top_k: 90
    variance_encoded_in_target: true nms_param { nms_threshold: 0.3 top_k: 12 } confidence_threshold: 0.1 %s } }
"""
MS_CNN = """
input: "data" input_shape { dim: 1 dim: 6 dim: 6 dim: 8 }
layer { name: "near" type: "Convolution" bottom: "data" top: "near"
  convolution_param { num_output: 7 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "far" type: "Convolution" bottom: "pool" top: "far"
  convolution_param { num_output: 7 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "boxes" type: "BoxOutput" bottom: "near" bottom: "far" top: "rois" top: "image" box_output_param {
  fg_thr: -5 iou_thr: 0.65 field_w: 40 field_w: 60 field_h: 40 field_h: 60 downsample_rate: 16 downsample_rate: 32
  max_nms_num: 50 } }
layer { name: "org" type: "ROIPooling" bottom: "data" bottom: "rois" top: "org"
  roi_pooling_param { pooled_w: 5 pooled_h: 5 spatial_scale: 0.0625 pad_ratio: 0 } }
layer { name: "ctx" type: "ROIPooling" bottom: "data" bottom: "rois" top: "ctx"
  roi_pooling_param { pooled_w: 5 pooled_h: 5 spatial_scale: 0.0625 pad_ratio: 0.25 } }
layer { name: "both" type: "Concat" bottom: "org" bottom: "ctx" top: "both" }
layer { name: "conv" type: "Convolution" bottom: "both" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "fc" type: "InnerProduct" bottom: "conv" top: "fc"
  inner_product_param { num_output: 8 weight_filler { type: "xavier" } } }
layer { name: "again" type: "DecodeBBox" bottom: "fc" bottom: "rois" top: "again" bbox_reg_param {
  bbox_mean: 0 bbox_mean: 0 bbox_mean: 0 bbox_mean: 0 bbox_std: 0.1 bbox_std: 0.1 bbox_std: 0.2 bbox_std: 0.2 } }
layer { name: "roi2" type: "ROIPooling" bottom: "data" bottom: "again" top: "roi2"
  roi_pooling_param { pooled_w: 2 pooled_h: 2 spatial_scale: 0.0625 pad_ratio: 0.25 } }
layer { name: "move" type: "InnerProduct" bottom: "roi2" top: "move"
  inner_product_param { num_output: 8 weight_filler { type: "xavier" } } }
"""
NETWORKS = {
    "faster-rcnn": HEAD + FASTER_RCNN,
    "faster-rcnn with detections": HEAD + FASTER_RCNN + DETECTION % "",
    "faster-rcnn as OpenCV has it": HEAD + FASTER_RCNN + DETECTION % "normalized_bbox: false",
    "ms-cnn": MS_CNN,
    "r-fcn": HEAD + R_FCN,
    "r-fcn with detections": HEAD + R_FCN + DETECTION % "",
}
INPUTS: dict[str, Array] = {
    "data": noise(1, 6, 6, 8, scale=0.5),
    "info": np.array([[96, 128, 1]], np.float32),
}


@pytest.fixture(scope="module", params=sorted(NETWORKS))
def network(request: Any, tmp_path_factory: Any) -> tuple[anylayer.Net, dict[str, Array], dict[str, Array]]:
    path = tmp_path_factory.mktemp("dynamic") / "deploy.prototxt"
    path.write_text(NETWORKS[request.param])
    net = anylayer.read(path).fill(3)
    given = {name: INPUTS[name] for name in net.inputs}
    answer = net.compile(engine="numpy")(given)
    rows = {len(a) for name, a in answer.items() if name in ("move", "chance", "image")}
    assert len(rows) == 1 and 1 < rows.pop() < 200  # fewer regions than the limit
    return net, given, answer


@pytest.mark.parametrize("engine", GENERAL)
def test_networks_with_regions_run(network: Any, engine: str) -> None:
    net, given, wanted = network
    got = net.compile(engine=engine, threads=1)(given)
    for name, array in wanted.items():
        assert_same(got[name], array, name, 1e-4)


@pytest.mark.one_per()
@pytest.mark.parametrize("suffix", [".onnx", ".xml", ".prototxt"])
def test_networks_with_regions_are_written(network: Any, suffix: str, tmp_path: Path) -> None:
    net, given, wanted = network
    file = tmp_path / f"written{suffix}"
    net.write(file)
    weights = [file.with_suffix(".caffemodel")] if suffix == ".prototxt" else []
    got = anylayer.read(file, *weights).compile(engine="numpy")(given)
    for name, array in wanted.items():
        assert_same(got[name], array, name, 1e-4)
