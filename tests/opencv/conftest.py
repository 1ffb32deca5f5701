"""The networks that the tests of anylayer.opencv read."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tools.reference import REFERENCE

from anylayer.caffe import Net

SMALL = """
name: "small" input: "data" input_shape { dim: 1 dim: 3 dim: 16 dim: 20 }
layer { name: "first" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "bn" }
layer { name: "scale" type: "Scale" bottom: "bn" top: "bn" scale_param { bias_term: true } }
layer { name: "parts" type: "Slice" bottom: "bn" top: "a" top: "b" slice_param { axis: 1 } }
layer { name: "parts" type: "Pooling" bottom: "a" top: "pool"
  pooling_param { pool: AVE kernel_size: 4 stride: 4 } }
layer { name: "side" type: "PReLU" bottom: "b" top: "side" }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 6 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""

CROP = """
name: "crop" input: "data" input: "other"
input_shape { dim: 1 dim: 2 dim: 9 dim: 11 } input_shape { dim: 1 dim: 2 dim: 4 dim: 5 }
layer { name: "cut" type: "Crop" bottom: "data" bottom: "other" top: "cut" crop_param { offset: 0 } }
"""

COLUMN = """
name: "column" input: "data" input_shape { dim: 2 dim: 3 dim: 4 }
layer { name: "power" type: "Power" bottom: "data" top: "data" power_param { shift: 1 } }
layer { name: "flat" type: "Flatten" bottom: "data" top: "flat" flatten_param { axis: 0 } }
"""

POOLS = """
name: "pools" input: "data" input_shape { dim: 1 dim: 3 dim: 16 dim: 20 }
layer { name: "inner" type: "Pooling" bottom: "data" top: "inner" pooling_param {
  kernel_size: 2 stride: 2 } }
layer { name: "max" type: "Pooling" bottom: "inner" top: "max" pooling_param { pool: MAX
  kernel_size: 2 stride: 2 } }
layer { name: "ave" type: "Pooling" bottom: "inner" top: "ave" pooling_param { pool: AVE
  kernel_size: 2 stride: 2 } }
layer { name: "exp" type: "Exp" bottom: "inner" top: "exp" exp_param { base: 2 } }
layer { name: "log" type: "Log" bottom: "exp" top: "log" log_param { base: 2 scale: 2 shift: 8 } }
layer { name: "weights" type: "PReLU" bottom: "data" top: "weights" }
"""

MODELS = ("lenet", "squeezenet_v1.1", "mobilenet_ssd", "mtcnn_det2")


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of Caffe networks with weights: small.prototxt and small.caffemodel, and so on."""
    folder = tmp_path_factory.mktemp("networks")
    for name, text in {"small": SMALL, "crop": CROP, "column": COLUMN, "pools": POOLS}.items():
        (folder / f"{name}.prototxt").write_text(text)
        net = Net(folder / f"{name}.prototxt")
        rng = np.random.default_rng(1)
        for blobs in net.params.values():
            for blob in blobs:
                blob.data[...] = rng.uniform(0.2, 1.0, blob.shape)
        net.save(folder / f"{name}.caffemodel")
    for name in MODELS:
        for file, suffix in (("deploy.prototxt", ".prototxt"), ("weights.caffemodel", ".caffemodel")):
            source = REFERENCE / "models" / name / file
            if source.exists():
                shutil.copy(source, folder / f"{name}{suffix}")
    for text in folder.glob("*.prototxt"):
        if not text.with_suffix(".caffemodel").exists():
            text.unlink()
    return folder
