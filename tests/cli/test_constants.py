"""Inputs that are numbers: -i NAME=NUMBER, .npy files of shape (), and --constant."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from PIL import Image

import anylayer
from anylayer.cli.items import constants_of, moving_input
from anylayer.errors import InputError
from tests.readers.onnx.files import model, save, value


@pytest.fixture
def scaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write y = x * factor, where factor is a number."""
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "x.npy", np.ones((1, 2), np.float32))
    np.save(tmp_path / "factor.npy", np.float32(3))
    nodes = [helper.make_node("Mul", ["x", "factor"], ["y"])]
    return save(model(nodes, [value("x", [1, 2]), value("factor", [])], ["y"]))


@pytest.mark.parametrize(
    ("option", "factor"),
    [
        (["-i", "factor=5"], 5),
        (["-i", "factor=-2.5"], -2.5),
        (["-i", "factor=.5"], 0.5),
        (["-i", "factor=+3"], 3),
        (["-i", "factor=5."], 5),
        (["-i", "factor=factor.npy"], 3),
        (["--constant", "factor=5"], 5),
        (["--constant", "factor=factor.npy"], 3),
    ],
)
def test_a_number_is_the_value_of_an_input(anylayer_command, scaled, option, factor):
    result = anylayer_command("run", scaled, "-i", "x=x.npy", *option, "-e", "onnxruntime", "-o", "y.npy")
    assert result.exit_code == 0
    np.testing.assert_array_equal(np.load("y.npy"), np.full((1, 2), factor, np.float32))


def test_several_items_share_a_number(anylayer_command, scaled):
    inputs = ["-i", "x=x.npy", "-i", "x=x.npy", "-i", "factor=5"]
    result = anylayer_command("run", scaled, *inputs, "-e", "onnxruntime")
    assert result.stdout.count("           5      1") == 2


def test_a_camera_is_not_a_number():
    assert moving_input(["x=0"], ["x", "n"], []).source == "0"
    assert moving_input(["n=0"], ["x", "n"], [], scalars=["n"]) is None


def test_integers_stay_exact():
    assert constants_of(["n=16777217", "v=[1, 2]"])["n"] == 16777217


@pytest.mark.parametrize("text", ["n", "=3", "n=abc"])
def test_a_constant_without_a_value_is_refused(text):
    with pytest.raises(InputError, match=r"NAME=VALUE|a number or a list of numbers"):
        constants_of([text])


@pytest.fixture
def pooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the maximum over the rows and columns of pictures of every size."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (6, 4), (51, 0, 255)).save(tmp_path / "picture.png")
    nodes = [helper.make_node("GlobalMaxPool", ["x"], ["y"])]
    return save(model(nodes, [value("x", [None, 3, None, None])], ["y"]))


def test_an_open_file_is_compared_on_a_picture(anylayer_command, pooled):
    shape = ["--shape", "x=N,3,H,W", "-i", "picture.png"]
    result = anylayer_command("convert", pooled, "-o", "out.onnx", *shape, "--scale", "1/255", "--json")
    (check,) = json.loads(result.stdout)["outputs"]
    assert check["sizes"] == {"x": [1, 3, 4, 6]}
    assert check["scale"] == pytest.approx(1)


def test_each_input_with_open_sizes_needs_data(anylayer_command, pooled, tmp_path):
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    net = save(model(nodes, [value("a", [None, 2]), value("b", [None, 2])], ["y"]), "add.onnx")
    np.save("a.npy", np.ones((3, 2), np.float32))
    shapes = ["--shape", "a=N,2", "--shape", "b=N,2"]
    result = anylayer_command("convert", net, "-o", "o.onnx", *shapes, "-i", "a=a.npy", status=1)
    assert "each input with open sizes needs data: give -i b=FILE" in result.stderr


def test_options_for_images_need_an_image(anylayer_command, pooled):
    result = anylayer_command("convert", pooled, "-o", "out.onnx", "--scale", "1/255", status=2)
    assert "--scale needs -i, --preprocess or --calibrate" in result.stderr


def test_inspect_takes_names_of_open_sizes(anylayer_command, pooled):
    shown = anylayer_command("inspect", pooled, "--shape", "x=N,3,32*h,W").stdout
    assert "float32[2, 3, 1, 1]" in shown
    assert "those of an example of the open sizes: N=2, h=" in shown
    assert (
        "--shape x=1,3,224,224\nA size that stays open may have a name"
        in anylayer_command("inspect", pooled).stdout
    )


def test_two_values_of_a_constant_are_refused():
    with pytest.raises(InputError, match="--constant gives 'n' two values"):
        constants_of(["n=1", "n=2"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (1j, "1j is not a number or an array of real numbers"),
        (None, "None is not a number or an array of real numbers"),
        ("abc", "abc is not a number or an array of real numbers"),
        ([[1], [1, 2]], "is not an array"),
        (1e300, r"1e\+300 is not of dtype float32"),
    ],
)
def test_values_that_an_input_cannot_have_are_refused(scaled, given, message):
    with pytest.raises(InputError, match=f"input 'factor': .*{message}"):
        anylayer.read(scaled, constants={"factor": given})
