"""Networks of TFLite have the names and the layouts that OpenCV gives them, and compute the same."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer.opencv as dnn
from anylayer.testing import assert_same
from tests.layers.tflite.recorded import Recorded, recorded

from .opencv4 import results_of

TYPES = (
    "CONV_2D", "DEPTHWISE_CONV_2D", "Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D",
    "AVERAGE_POOL_2D", "MAX_POOL_2D", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "PRELU", "RELU", "LOGISTIC",
    "HARD_SWISH", "LEAKY_RELU", "SQRT", "NEG", "SOFTMAX", "FULLY_CONNECTED", "TRANSPOSE", "PAD", "RESHAPE",
    "STRIDED_SLICE", "CONCATENATION", "CAST",
)  # fmt: skip
_DIFFERENT = (
    "CONV_2D dilation", "DEPTHWISE_CONV_2D dilation", "AVERAGE_POOL_2D same", "PRELU whole", "SOFTMAX beta",
    "CAST int", "CAST int64", "CAST bool", "FULLY_CONNECTED True", "RESHAPE scalar",
)  # fmt: skip
DIFFERENT = {"4": {*_DIFFERENT, "FULLY_CONNECTED False"}, "5": {*_DIFFERENT}}
"""The cases for which OpenCV computes something else than TFLite's interpreter: see docs/opencv.md."""
UNSTABLE = {"4": set(), "5": {"FULLY_CONNECTED dynamic", "PAD"}}
"""The cases for which OpenCV gives other numbers from run to run."""
CASES = {
    f"{i}.tflite": case
    for i, case in enumerate(c for c in recorded().values() if c.name.split()[0] in TYPES)
    if all(x.dtype == np.float32 for x in case.inputs.values())
}
PROGRAM = """
import pathlib, pickle, sys
import cv2
folder, results = pathlib.Path(sys.argv[1]), {}
is_5 = cv2.__version__[0] == "5"  # whose new engine ends the process
options = {"engine": cv2.dnn.ENGINE_CLASSIC} if is_5 else {}
for name, inputs in pickle.loads((folder / "cases.pickle").read_bytes()).items():
    try:
        net = cv2.dnn.readNetFromTFLite(str(folder / name), **options)
        for key, x in inputs.items():
            net.setInput(x, key)
        names = net.getUnconnectedOutLayersNames()
        results[name] = tuple(names), [y.copy() for y in net.forward(names)], net.forward()
    except cv2.error:
        continue
(folder / "results.pickle").write_bytes(pickle.dumps(results))
"""


def blobs(case: Recorded) -> dict[str, Any]:
    """Return the inputs of a case as OpenCV takes them."""
    inputs = case.inputs.items()
    return {k: np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if x.ndim == 4 else x for k, x in inputs}


@pytest.mark.parametrize("version", ["4", "5"])
def test_operators_match_opencv(tmp_path: Path, version: str) -> None:
    for name, case in CASES.items():
        (tmp_path / name).write_bytes(case.model)
    (tmp_path / "cases.pickle").write_bytes(pickle.dumps({name: blobs(case) for name, case in CASES.items()}))
    results_of_opencv, different = results_of(PROGRAM, tmp_path, version), []
    assert len(results_of_opencv) > 60
    for name, (names, outputs, last) in results_of_opencv.items():
        case = CASES[name]
        net = dnn.readNetFromTFLite(np.frombuffer(case.model, np.uint8))
        for key, x in blobs(case).items():
            net.setInput(x, key)
        assert net.getUnconnectedOutLayersNames() == names
        results = [*net.forward(names), net.forward()]
        pairs = zip(results, [*outputs, last])
        if not all(y.shape == w.shape and np.allclose(y, w, atol=1e-4) for y, w in pairs):
            different.append(case.name)
    assert {*different} - UNSTABLE[version] == DIFFERENT[version]


def test_images_and_names_are_those_of_opencv(tmp_path: Path) -> None:
    case = recorded()["CONV_2D relu6"]
    path = case.save(tmp_path)
    for net in (
        dnn.readNet(str(path)),
        dnn.readNet("tflite", path.read_bytes(), b""),
        dnn.readNetFromTFLite(path),
    ):
        assert net.getLayerNames() == ("out0", "out0/activ")
        net.setInput(blobs(case)["in0"])
        y = net.forward("out0/activ")
        assert_same(y, case.outputs["out0"].transpose(0, 3, 1, 2), "out0", 1e-5)
        with pytest.raises(dnn.error, match="layer 'out0' has no outputs"):
            net.forward("out0")


def test_values_after_a_reshape_are_those_of_the_file(tmp_path: Path) -> None:
    case = recorded()["Landmarks2TransformMatrix plain"]
    net = dnn.readNetFromTFLite(case.save(tmp_path))
    net.setInput(blobs(case)["in0"])
    (want,) = case.outputs.values()
    assert_same(net.forward(), want, case.name, 1e-5)
