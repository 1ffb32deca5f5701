"""Layers with OpenCV's names: its tutorial's own classes compile and compute what the NumPy layers compute."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from tests.kernels.conftest import ROOT, Built
from tests.kernels.test_examples import interp_net, noise

TUTORIAL = "seeds/000_5f7d1c27eb1b4ca2.txt"
needs_tutorial = needs_data(TUTORIAL, "tf_keras")


def classes() -> str:
    """Return the two classes of the tutorial, with the lines that its text has lost."""
    text = (REFERENCE / TUTORIAL).read_text()
    parts = []
    for name in ("InterpLayer", "ResizeBilinearLayer"):
        found = re.search(rf"^class {name}.*?^}};$", text, re.S | re.M)
        assert found is not None
        body = found[0]
        create = f"{{\nreturn cv::Ptr<cv::dnn::Layer>(new {name}(params));"
        head = "static cv::Ptr<cv::dnn::Layer> create(cv::dnn::LayerParams &params)\n"
        assert create in body
        body = body.replace(create, head + create)
        forward = "virtual void forward(cv::InputArrayOfArrays inputs_arr,\n"
        assert forward in body
        parts.append(body.replace(forward, forward + "cv::OutputArrayOfArrays outputs_arr,\n"))
    registered = re.findall(r"^CV_DNN_REGISTER_LAYER_CLASS\(.*\);$", text, re.M)
    return "\n".join(["#include <anylayer/opencv.hpp>", *parts, *dict.fromkeys(registered), ""])


@pytest.fixture(scope="module")
def tutorial(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the tutorial's classes."""
    source = tmp_path_factory.mktemp("tutorial") / "tutorial.cpp"
    source.write_text(classes())
    return built("tutorial", source)


@needs_tutorial
@pytest.mark.parametrize(
    ("shape", "size"),
    [((1, 3, 4, 5), (9, 8)), ((2, 2, 7, 9), (3, 4)), ((3, 1, 2, 2), (1, 1)), ((1, 2, 5, 5), (500, 2))],
)
def test_interp_of_the_tutorial_matches_numpy(
    tmp_path: Path, tutorial: Path, shape: tuple[int, ...], size: tuple[int, int]
) -> None:
    path = interp_net(tmp_path, shape, *size)
    x = noise(shape)
    want = anylayer.read(path).compile("numpy")(x)["out"]
    got = anylayer.read(path, layers=[tutorial]).compile("onnxruntime")(x)["out"]
    np.testing.assert_allclose(got, want, atol=1e-6)


@needs_tutorial
@pytest.mark.parametrize("name", ["resize_bilinear", "resize_bilinear_factor"])
def test_resize_bilinear_of_the_tutorial_matches_numpy(tutorial: Path, name: str) -> None:
    path = REFERENCE / "tf_keras" / f"{name}.pb"
    net = anylayer.read(path, layers=[tutorial])
    python = anylayer.read(path, layers=[ROOT / "examples/layers/resize_bilinear.py"])
    (given,) = net.inputs
    model, reference = net.compile("onnxruntime"), python.compile("numpy")
    for shape in [(2, 3, 4, 5), (1, 6, 5, 2), (2, 3, 4, 5)]:
        x = noise(shape)
        for output, want in reference({given: x}).items():
            np.testing.assert_allclose(model({given: x})[output], want, atol=1e-5)


@needs_tutorial
def test_an_assertion_of_the_tutorial_names_file_and_layer(tutorial: Path) -> None:
    path = REFERENCE / "tf_keras" / "resize_bilinear_align.pb"
    rule = r"""layer 'resize_bilinear' \(ResizeBilinear\): libtutorial.so: tutorial.cpp:\d+: the assertion """
    with pytest.raises(
        anylayer.AnyLayerError, match=rule + r"'!params.get<bool>\(\"align_corners\", false\)' does"
    ):
        anylayer.read(path, layers=[tutorial]).compile("onnxruntime")
