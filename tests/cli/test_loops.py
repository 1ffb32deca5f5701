"""Loops on data: each target of `generate` and `convert` gives NumPy's values, or refuses the loop with a remedy
and leaves no file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import anylayer
from anylayer.cli import main
from anylayer.generators import targets
from anylayer.writers import writers
from tests.generators.pytorch.test_project import load
from tests.layers.onnx.test_control import doubled_until, node
from tests.readers.onnx.files import model, save, value

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "mine" type: "Mine" bottom: "x" top: "y" }
"""
LAYERS = """
import numpy as np


class Mine:
    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
        x, total = inputs[0], np.float32(0)
        while x.max() > 1:
            x = x * np.float32(0.5)
            total = total + x.sum()
        return [x + total]
"""
TARGETS = [*(("generate", name) for name in targets()), *(("convert", name) for name in writers())]
NO_LAYER = r"the network has no layer of yours; give the file with your layers: -l"
ENDLESS = ".* An OpenVINO model gives wrong values for it instead of an error. .* limit the loop"
REFUSED = {
    ("layer", "convert", "openvino"): f"layer 'mine': {ENDLESS}",
    ("file", "convert", "openvino"): f"layer 'Loop_0': {ENDLESS}",
    ("file", "convert", "caffe"): r"layer 'Loop_0' \(Loop\): Caffe .* has no layer for Loop. .*, or write ONNX",
    **{("file", "generate", name): NO_LAYER for name in ("onnxruntime", "opencv", "opencv-python", "openvino")},
}
X = np.array([[1, 2, 3], [40, -5, 0.5]], np.float32)


def source(kind: str, limit: str = "") -> list[str]:
    """Write a network with a loop: a layer in Python, or an ONNX file. Return the arguments of a command."""
    if kind == "file":
        loop = node("Loop", [limit, "c", "x"], ["y"], body=doubled_until("e", [], "s"))
        constants = {"c": np.array(True), "e": np.float32(1000), **({limit: np.array(30)} if limit else {})}
        return [str(save(model([loop], [value("x", [2, 3])], ["y"], constants)))]
    Path("net.prototxt").write_text(NET)
    Path("layers.py").write_text(LAYERS)
    return ["net.prototxt", "-l", "Mine=layers.py:Mine"]


def function(kind: str) -> Any:
    """Return the network as a function of NumPy."""
    if kind == "file":
        return anylayer.read("net.onnx").compile("numpy")
    return anylayer.read("net.prototxt", layers=["Mine=layers.py:Mine"]).compile("numpy")


def of_result(folder: Path, target: str) -> Any:
    """Return the function that a target wrote; None where only the test of the project runs it."""
    if target == "pytorch":
        import torch

        module = load(folder / "out")
        return lambda x: {"y": module(torch.from_numpy(x)).numpy()}
    paths = [p for p in folder.rglob("*") if p.suffix in (".onnx", ".prototxt")]
    if len(paths) != 1 or target in targets():
        return None
    return anylayer.read(paths[0], layers=["Mine=layers.py:Mine"] * (target == "caffe")).compile("numpy")


ALIKE = {
    **{("generate", name): "an operator in C++" for name in ("onnxruntime", "opencv", "openvino")},
    **{("convert", name): "an ONNX file" for name in ("onnx", "triton")},
}
"""The targets that write a loop in the same way."""


@pytest.mark.one_per(lambda kind, command, target: (kind, ALIKE.get((command, target), (command, target))))
@pytest.mark.parametrize(("command", "target"), TARGETS)
@pytest.mark.parametrize("kind", ["layer", "file"])
def test_each_target_writes_a_loop_on_data_or_refuses_it(
    kind: str, command: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target == "pytorch":
        pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(tmp_path)
    arguments = source(kind)
    np.save("x.npy", X)
    suffixes = () if command == "generate" else writers()[target].SUFFIXES
    folder = tmp_path / "result"
    folder.mkdir()
    out = folder / f"out{suffixes[0] if suffixes else ''}"
    option = "--for" if command == "generate" else "--to"
    done = CliRunner().invoke(main, [command, *arguments, "-i", "x=x.npy", option, target, "-o", str(out)])
    refused = REFUSED.get((kind, command, target))
    if refused is not None:
        assert done.exit_code == 1 and re.search(refused, done.stderr), done.output
        assert not [*folder.iterdir()]
        return
    assert done.exit_code == 0, done.output
    made = of_result(folder, target)
    for factor in (1, -1, 7, 1 / 64, 300) if made is not None else ():  # none, one and more steps
        x = X * np.float32(factor)
        np.testing.assert_allclose(made(x)["y"], function(kind)(x)["y"], rtol=1e-6)
    untested = re.search("its test was not run: (.*)", done.stderr)
    if untested is not None:
        pytest.skip(f"the test needs tools that are not installed: {untested[1]}")
    says = "its test passes" if command == "generate" else "compared with the layers in NumPy"
    assert says in done.output and "largest difference 0," in done.output


def test_loop_with_a_limit_becomes_an_openvino_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This is the remedy that the refusal names."""
    pytest.importorskip("openvino", reason="openvino is not installed")
    monkeypatch.chdir(tmp_path)
    (path,) = source("file", "m")
    np.save("x.npy", X)
    done = CliRunner().invoke(main, ["convert", path, "-i", "x=x.npy", "-o", "out.xml"])
    assert done.exit_code == 0 and "y: largest difference 0," in done.output, done.output
    result = anylayer.read("out.xml").compile("openvino")
    for factor in (1, -0.001, 7, 300):
        x = X * np.float32(factor)
        np.testing.assert_allclose(result(x)["y"], function("file")(x)["y"], rtol=1e-6)
