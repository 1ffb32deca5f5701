"""Layers that a target cannot have are refused by name, with what works instead, before any folder appears."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import anylayer
from anylayer.cli import main
from anylayer.errors import FileError, LayerError
from anylayer.generators import targets

LOOPS = ("opencv", "onnxruntime", "openvino", "dv")
NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 6 } } }
layer { name: "mine" type: "Mine" bottom: "data" top: "mine" }
"""


def refusal(folder: Path, target: str, forward: Any) -> str:
    """Return the message for a network whose layer Mine has this forward."""

    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Any) -> Any:
            return [forward(inputs[0])]

    (folder / "net.prototxt").write_text(NET)
    net = anylayer.read(folder / "net.prototxt", layers={"Mine": Mine})
    with pytest.raises(LayerError, match=r"net.prototxt:3: layer 'mine' \(Mine\): ") as caught:
        net.generate(target, folder / "project", test=False)
    assert not (folder / "project").exists()
    return str(caught.value)


@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize(
    ("forward", "why"),
    [
        (lambda x: x + 1 if float(str(x.sum())) > 0 else x, r"an f-string needs the values of a traced array"),
        (lambda x: np.linalg.svd(x)[1], "np.linalg.svd cannot be expressed in ONNX operators"),
    ],
    ids=["branch on data", "unknown function"],
)
def test_layers_that_cannot_be_traced_are_refused(target: str, forward: Any, why: str, tmp_path: Path) -> None:
    text = refusal(tmp_path, target, forward)
    assert why in text and "test_refusals.py" in text
    assert text.endswith("Write its forward so that it can be recorded") and "keep" not in text.split(". Write")[1]


class AddsOne:
    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        return [inputs[0] + 1]


@pytest.mark.parametrize("name", ["a;b", 'a"b', "a\\b"])
def test_folder_in_which_cmake_cannot_build_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anylayer.generators.onnxruntime.missing_tools", lambda *packages: [])
    (tmp_path / "net.prototxt").write_text(NET)
    net = anylayer.read(tmp_path / "net.prototxt", layers={"Mine": AddsOne})
    with pytest.raises(FileError, match="CMake cannot build in a folder whose path has the character"):
        net.generate("onnxruntime", tmp_path / name / "project")
    assert [p.name for p in tmp_path.iterdir()] == ["net.prototxt"]


@pytest.mark.parametrize("target", LOOPS)
def test_dtypes_without_loops_are_refused(target: str, tmp_path: Path) -> None:
    if target == "openvino":
        pytest.importorskip("openvino", reason="openvino is not installed")
    text = refusal(tmp_path, target, lambda x: x.astype(np.float16) * 2)
    assert "cannot become loops: an array is float16; convert it with .astype(np.float32) before" in text


@pytest.mark.parametrize("target", LOOPS)
def test_missing_compilers_are_named_with_a_remedy(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target == "openvino":
        pytest.importorskip("openvino", reason="openvino is not installed")
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "layers.py").write_text(
        "class Mine:\n    def __init__(self, params, blobs):\n        pass\n\n"
        "    def forward(self, inputs):\n        return [inputs[0] + 1]\n"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["generate", tmp_path / "net.prototxt", "-l", f"Mine={tmp_path}/layers.py:Mine", "--for", target]
    done = CliRunner().invoke(main, [*map(str, words), "-o", str(tmp_path / "project")])
    assert done.exit_code == 0 and (tmp_path / "project").is_dir(), done.output
    assert "its test was not run: this needs " in done.stderr and "c++" in done.stderr
    command = re.search(r"^to build and run the test: cd \S+/project && (.*)$", done.stderr, re.MULTILINE)
    assert command and ("cmake" in command[1] or "c++" in command[1] or "test_model.py build" in command[1])
    if target != "dv":
        assert "cmake (on Debian: apt-get install cmake), c++ (on Debian: apt-get install g++)" in done.stderr


@pytest.mark.parametrize(
    ("target", "why"),
    [
        *(
            (name, "a layer in generated code has sizes that follow from")
            for name in ("onnxruntime", "opencv", "openvino")
        ),
        ("dv", "buffers of the hardware have fixed sizes"),
    ],
)
def test_targets_with_fixed_sizes_refuse_a_selection(target: str, why: str, tmp_path: Path) -> None:
    text = refusal(tmp_path, target, lambda x: x[x > 0].reshape(1, -1))
    assert why in text


def test_pytorch_selects_as_numpy_does(tmp_path: Path) -> None:
    """The module returns as many elements as the mask has, for none, some and all of them."""
    torch = pytest.importorskip("torch")

    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Any) -> Any:
            return [inputs[0][inputs[0] > 0].reshape(1, -1)]

    (tmp_path / "net.prototxt").write_text(NET)
    anylayer.read(tmp_path / "net.prototxt", layers={"Mine": Mine}).generate("pytorch", tmp_path / "p", test=False)
    module = runpy.run_path(str(tmp_path / "p" / "model.py"))["load"]()
    noise = np.random.default_rng(0).standard_normal((1, 3, 4, 6)).astype(np.float32)
    for x in (noise, noise - 9, noise + 9):
        np.testing.assert_array_equal(module(torch.from_numpy(x)).numpy(), x[x > 0].reshape(1, -1))
