"""Scripts for pycaffe run with one import changed: their calls, on small networks with random weights.

Sources of the sequences: deep-visualization-toolbox (caffevis, find_maxes), FCN (infer.py, surgery.py), HED's
tutorial and py-faster-rcnn (im_detect).
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer.caffe as caffe
from tests.caffe.test_python_layers import module as module  # a fixture
from tests.caffe.test_python_layers import python
from tests.layers.harness import noise
from tests.threads import MAX_SECONDS, ended, started

CAFFENET = """
name: "CaffeNet" input: "data" input_dim: 1 input_dim: 3 input_dim: 33 input_dim: 33 force_backward: true
layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1" convolution_param { num_output: 8
  kernel_size: 5 stride: 2 weight_filler { type: "xavier" } } }
layers { name: "relu1" type: RELU bottom: "conv1" top: "conv1" }
layers { name: "pool1" type: POOLING bottom: "conv1" top: "pool1" pooling_param { kernel_size: 3 stride: 2 } }
layers { name: "norm1" type: LRN bottom: "pool1" top: "norm1" lrn_param { alpha: 0.0001 beta: 0.75 } }
layers { name: "fc6" type: INNER_PRODUCT bottom: "norm1" top: "fc6" inner_product_param { num_output: 16
  weight_filler { type: "xavier" } } }
layers { name: "drop6" type: DROPOUT bottom: "fc6" top: "fc6" dropout_param { dropout_ratio: 0.5 } }
layers { name: "prob" type: SOFTMAX bottom: "fc6" top: "prob" }
"""
UPSAMPLED = """
name: "segments"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 9 dim: 9 } } }
layer { name: "score_fr" type: "Convolution" bottom: "data" top: "score_fr" convolution_param { num_output: 4
  kernel_size: 2 stride: 2 pad: 2 weight_filler { type: "xavier" } } }
layer { name: "up" type: "Deconvolution" bottom: "score_fr" top: "up" convolution_param { num_output: 4
  kernel_size: 4 stride: 2 bias_term: false } }
layer { name: "score" type: "Crop" bottom: "up" bottom: "data" top: "score" crop_param { axis: 2 offset: 2 } }
layer { name: "edges" type: "Sigmoid" bottom: "score_fr" top: "edges" }
"""


def files(folder: Path, text: str) -> tuple[str, str]:
    """Return the files of a network and of its random weights."""
    deploy, weights = folder / "deploy.prototxt", folder / "weights.caffemodel"
    deploy.write_text(text)
    caffe.Net(str(deploy), caffe.TEST, engine="onnxruntime").save(str(weights))
    return str(deploy), str(weights)


def test_visualizer_computes_in_one_thread_and_draws_in_another(tmp_path: Path) -> None:
    caffe.set_mode_cpu()
    net = caffe.Classifier(*files(tmp_path, CAFFENET), mean=None, channel_swap=(2, 1, 0), raw_scale=1.0)
    name = net.inputs[0]
    net.transformer.set_mean(name, np.full((3, 33, 33), 100.0))
    assert {len(net.blobs[key].data.shape) for key in net.blobs} == {2, 4}
    frames = [np.random.default_rng(i).integers(0, 256, (33, 33, 3), np.uint8) for i in range(4)]
    maps: list[Any] = []
    drawn, computed = threading.Semaphore(1), threading.Semaphore(0)

    def need(turn: threading.Semaphore) -> None:
        assert turn.acquire(timeout=MAX_SECONDS), "the other thread does not continue"

    def compute() -> None:
        caffe.set_mode_cpu()
        for frame in frames:
            need(drawn)
            net.forward(data=net.transformer.preprocess(name, frame)[np.newaxis, :, :, :])
            computed.release()

    thread = started(compute)
    for frame in frames:
        need(computed)
        probs = net.blobs["prob"].data.flatten()
        maps.append(net.blobs["conv1"].data[0].copy())
        drawn.release()
        x = frame[:, :, ::-1].transpose(2, 0, 1)[None].astype(np.float32) - np.float32(100)
        want = super(caffe.Net, net).compile("numpy")(x)["prob"]
        np.testing.assert_allclose(probs, want[0], rtol=1e-3, atol=1e-6)  # of probabilities
        assert probs[probs.argsort()[-1:-6:-1]].tolist() == sorted(probs.tolist())[:-6:-1]
    ended(thread)
    assert len({one.tobytes() for one in maps}) == 4 and min(one.min() for one in maps) == 0


def test_largest_activations_are_found_over_pictures(tmp_path: Path) -> None:
    mean = np.random.default_rng(0).uniform(90, 120, (3, 33, 33))
    steps: dict[str, Any] = {"mean": mean, "channel_swap": (2, 1, 0), "raw_scale": 255, "image_dims": (40, 40)}
    net = caffe.Classifier(*files(tmp_path, CAFFENET), **steps)
    for seed in range(3):
        picture = np.random.default_rng(seed).random((50, 60, 3)).astype(np.float32)
        assert net.predict([picture], oversample=False).shape == (1, 16)
        crop = caffe.io.resize_image(picture, (40, 40))[3:36, 3:36]
        np.testing.assert_allclose(
            net.blobs["data"].data[0], crop[:, :, ::-1].transpose(2, 0, 1) * 255 - mean, atol=1e-3
        )
        for layer in ("conv1", "fc6", "prob"):
            blob = net.blobs[layer].data
            unrolled = blob[0].reshape(blob.shape[1], -1)
            assert unrolled[0, unrolled.argmax(1)[0]] == blob[0, 0].max()


def test_segmentation_of_pictures_of_any_size(tmp_path: Path) -> None:
    net = caffe.Net(*files(tmp_path, UPSAMPLED), caffe.TEST)
    channels, _, size, _ = net.params["up"][0].data.shape
    filt = 1 - abs(np.arange(size) - 1.5) / 2
    net.params["up"][0].data[...] = 0
    net.params["up"][0].data[range(channels), range(channels), :, :] = np.outer(filt, filt)
    other = caffe.Net(str(tmp_path / "deploy.prototxt"), caffe.TEST)
    for layer in net.params:
        for i in range(len(net.params[layer])):
            other.params[layer][i].data.flat = net.params[layer][i].data.flat
    for height, width in ((20, 30), (31, 17)):
        picture = np.random.default_rng(height).uniform(0, 255, (height, width, 3)).astype(np.float32)
        in_ = picture[:, :, ::-1]
        in_ -= np.array((104.00698793, 116.66876762, 122.67891434))
        in_ = in_.transpose((2, 0, 1))
        for one in (net, other):
            one.blobs["data"].reshape(1, *in_.shape)
            one.blobs["data"].data[...] = in_
            one.forward()
        out = net.blobs["score"].data[0].argmax(axis=0)
        assert out.shape == (height, width)
        want = net.compile("numpy", {"data": (1, *in_.shape)})(in_[None])
        np.testing.assert_allclose(net.blobs["score"].data, want["score"], rtol=1e-3, atol=1e-2)
        np.testing.assert_array_equal(other.blobs["score"].data, net.blobs["score"].data)
        np.testing.assert_allclose(net.blobs["edges"].data[0][0, :, :], want["edges"][0, 0], atol=1e-3)


@pytest.mark.parametrize("traced", [False, True])
def test_detection_reads_rois_of_a_python_layer(tmp_path: Path, module: str, traced: bool) -> None:
    text = (
        'name: "rcnn" input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\n'
        'input: "boxes" input_shape { dim: 1 dim: 5 }\n'
        + python(module, *(("Scale", "boxes", "rois") if traced else ("Positive", "boxes", "rois count")))
        + 'layer { name: "pool" type: "ROIPooling" bottom: "data" bottom: "rois" top: "pool" '
        "roi_pooling_param { pooled_w: 2 pooled_h: 2 spatial_scale: 1 } }\n"
        'layer { name: "cls_score" type: "InnerProduct" bottom: "pool" top: "cls_score" '
        'inner_product_param { num_output: 5 weight_filler { type: "gaussian" std: 0.1 } } }\n'
        'layer { name: "cls_prob" type: "Softmax" bottom: "cls_score" top: "cls_prob" }\n'
    )
    net = caffe.Net(*files(tmp_path, text), caffe.TEST)
    net.name = "vgg16"
    for count, size in ((4, 12), (7, 20)):
        boxes = np.abs(noise(count, 5)).astype(np.float32)
        boxes[:, 0] = 0 if traced else np.resize([0.25, -1], count)
        blobs = {"data": noise(1, 3, size, size), "boxes": boxes}
        for name, blob in blobs.items():
            net.blobs[name].reshape(*blob.shape)
        out = net.forward(**{name: blob.astype(np.float32, copy=False) for name, blob in blobs.items()})
        rois = net.blobs["rois"].data.copy()
        np.testing.assert_allclose(rois, boxes * 2 if traced else boxes[::2], rtol=1e-6)
        assert out["cls_prob"].shape == (len(rois), 5)
        np.testing.assert_allclose(out["cls_prob"].sum(1), 1, rtol=1e-5)
        np.testing.assert_allclose(net.blobs["cls_score"].data.argmax(1), out["cls_prob"].argmax(1))
