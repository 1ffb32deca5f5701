"""Tests of signatures and metadata, which TensorFlow and MediaPipe wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import anylayer
from anylayer.cli import main
from anylayer.errors import FileError, InputError
from anylayer.images.preprocess import recipe_for
from tests.readers.tflite.test_reader import save, special

MODEL = Path(__file__).parents[3] / "examples" / "tflite" / "colors.tflite"
IMAGE, SCORE = "serving_default_image:0", "StatefulPartitionedCall_1:0"


def test_labels_and_normalization_are_those_of_the_file() -> None:
    network = anylayer.read(MODEL).network
    assert network.labels == {SCORE: ["red", "green", "blue"]}
    steps = network.preprocess[IMAGE]
    assert steps.mean is not None and steps.mean.tolist() == [127.5] * 3 and steps.scale == 1 / 127.5
    assert network.channel_orders == {IMAGE: "RGB"}
    assert f"input '{IMAGE}' takes (image - 127.5) / 127.5" in network.notes
    assert f"labels of output '{SCORE}', labels.txt: red, green, blue" in network.notes


def test_normalization_per_channel_and_labels_without_language(tmp_path: Path) -> None:
    network = anylayer.read(save(tmp_path, special("channels", "metadata"))).network
    steps = network.preprocess[IMAGE]
    assert steps.mean is not None and steps.mean.tolist() == [123.5, 116.0, 104.0]
    assert steps.scale == (1 / 58, 1 / 57, 1 / 64)
    recipe = recipe_for(network.inputs[IMAGE], steps, channels_last=True)
    assert "minus mean 123.5,116,104, times 0.0172414,0.0175439,0.015625" in str(recipe)
    assert network.labels == {SCORE: ["red", "green", "blue"]}


def test_names_of_the_signature_are_names_of_inputs_and_outputs() -> None:
    net = anylayer.read(MODEL)
    assert f"signature 'serving_default': image is '{IMAGE}', output_0 is '{SCORE}'" in net.network.notes
    x = np.zeros((1, 8, 8, 3), np.float32)
    x[..., 1] = 1
    y = net.compile("numpy", outputs=["output_0"])({"image": x})["output_0"]
    want = np.exp([0, 5, 0]) / np.exp([0, 5, 0]).sum()
    np.testing.assert_allclose(y[0], want, rtol=1e-5)
    with pytest.raises(InputError, match="is missing"):
        net.compile("numpy")({"picture": x})


def test_run_normalizes_an_image_and_shows_labels(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((20, 30, 3), np.uint8)
    pixels[..., 2] = 255
    image.fromarray(pixels).save(tmp_path / "blue.png")
    done = CliRunner().invoke(main, ["run", str(MODEL), "-i", str(tmp_path / "blue.png")])
    # the means are -1, -1 and 1, so the scores are -5, -5 and 5
    assert f"{1 / (1 + 2 * np.exp(-10)):10.6g}      2  blue" in done.output, done.output
    assert "RGB, minus mean 127.5,127.5,127.5, times 0.00784314" in done.output


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (b"red\ngreen", b"red\nGREEN", "its labels 'labels.txt' cannot be read: Bad CRC-32"),
        (b"PK\x05\x06", b"PK\x00\x00", "its labels 'labels.txt' cannot be read: File is not a zip file"),
        (np.float32([127.5]).tobytes(), np.float32([-127.5]).tobytes(), "its normalization has 1 means and 1"),
    ],
)
def test_damaged_metadata_are_refused_by_name(old: bytes, new: bytes, text: str, tmp_path: Path) -> None:
    data = MODEL.read_bytes()
    assert old in data
    with pytest.raises(FileError) as error:
        anylayer.read(save(tmp_path, data.replace(old, new)))
    assert text in str(error.value)


def test_metadata_of_another_version_are_ignored_with_a_note(tmp_path: Path) -> None:
    network: Any = anylayer.read(save(tmp_path, MODEL.read_bytes().replace(b"M001", b"M999"))).network
    assert not network.labels and not network.preprocess
    assert "its metadata are of a version that is not known, and are not read" in network.notes
