"""caffe.Classifier and caffe.Detector: preprocessing, crops and windows around a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import anylayer.caffe as caffe
from anylayer.errors import InputError
from tests.layers.harness import noise

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 3 dim: 6 dim: 6 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
"""
MEAN = np.array([0.25, 0.5, 0.75], np.float32)
STEPS: dict[str, Any] = {"mean": MEAN, "raw_scale": 2.0, "channel_swap": (2, 1, 0), "engine": "onnxruntime"}


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "net.prototxt").write_text(NET)
    net = caffe.Net(tmp_path / "net.prototxt", engine="onnxruntime")
    net.params["ip"][0].data[...] = noise(2, 108)
    net.params["ip"][1].data[...] = [1, 2]
    net.save(tmp_path / "net.caffemodel")
    return str(tmp_path / "net.prototxt"), str(tmp_path / "net.caffemodel")


def computed(crop: Any) -> Any:
    """Return the network's output for an image (6, 6, 3), computed by NumPy."""
    x = crop[:, :, ::-1].transpose(2, 0, 1) * np.float32(2) - MEAN[:, None, None]
    return noise(2, 108) @ x.reshape(-1) + np.float32([1, 2])


def test_prediction_is_the_mean_over_ten_crops(files: tuple[str, str]) -> None:
    classifier = caffe.Classifier(*files, image_dims=(8, 10), **STEPS)
    images = [noise(8, 10, 3), noise(8, 10, 3, seed=1)]
    found = classifier.predict(images)
    crops = caffe.io.oversample(images, (6, 6))
    want = np.array([computed(crop) for crop in crops]).reshape(2, 10, 2).mean(1)
    assert np.allclose(found, want, atol=1e-4)


def test_prediction_without_oversampling_is_that_of_the_center(files: tuple[str, str]) -> None:
    classifier = caffe.Classifier(*files, image_dims=(8, 10), **STEPS)
    image = noise(8, 10, 3)
    assert np.allclose(classifier.predict([image], oversample=False), [computed(image[1:7, 2:8])], atol=1e-4)
    whole = caffe.Classifier(*files, **STEPS)
    want = computed(caffe.io.resize_image(image, (6, 6)))
    assert np.allclose(whole.predict([image], oversample=False), [want], atol=1e-4)
    assert classifier.transformer.inputs == {"data": (4, 3, 6, 6)}


@pytest.fixture
def picture(tmp_path: Path) -> tuple[Path, Any]:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 24, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    return tmp_path / "picture.png", pixels.astype(np.float32) / 255


def test_windows_are_classified_one_by_one(files: tuple[str, str], picture: tuple[Path, Any]) -> None:
    path, image = picture
    windows = [(0, 0, 6, 6), (2, 3, 14, 15), (10, 8, 20, 24), (1, 1, 9, 5), (5, 5, 11, 11)]
    found = caffe.Detector(*files, **STEPS).detect_windows([(path, windows)])
    assert [one["window"] for one in found] == windows
    assert {one["filename"] for one in found} == {path}
    for one in found:
        top, left, bottom, right = one["window"]
        crop = caffe.io.resize_image(image[top:bottom, left:right], (6, 6))
        assert np.allclose(one["prediction"], computed(crop), atol=1e-4)
    assert caffe.Detector(*files, **STEPS).detect_windows([]) == []


def test_context_around_a_window_is_taken_from_the_image_or_the_mean(
    files: tuple[str, str], picture: tuple[Path, Any]
) -> None:
    _, image = picture
    detector = caffe.Detector(*files, context_pad=1, **STEPS)
    inside = detector.crop(image, np.array((8, 8, 11, 11)))  # 4 pixels of 6 are the window: it grows from 4 to 6
    assert np.allclose(inside, caffe.io.resize_image(image[7:13, 7:13], (6, 6)), atol=1e-6)
    corner = detector.crop(image, np.array((0, 0, 3, 3)))
    assert np.allclose(corner[0], MEAN[::-1] / 2)
    assert np.allclose(corner[:, 0], MEAN[::-1] / 2)
    assert not np.allclose(corner[1:, 1:], MEAN[::-1] / 2)
    with pytest.raises(InputError, match="context_pad must be less than half of the input's width 6, got 3"):
        detector.configure_crop(3)
    with pytest.raises(InputError, match=r"is outside of the image of 20 x 24 pixels"):
        detector.crop(image, np.array((40, 40, 43, 43)))
    with pytest.raises(InputError, match="selective search needs MATLAB; compute windows with"):
        detector.detect_selective_search(["x.png"])
