"""Test the gallery on a network that is made here, and that its lists fit each other. It downloads nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from gallery import __main__ as gallery
from gallery import outputs
from gallery.models import MODELS, Model
from onnx import TensorProto, helper

ROOT = Path(__file__).parent.parent
X = np.arange(12, dtype=np.float32).reshape(2, 6) / 7


def save(path: Path, operator: str) -> None:
    """Write an ONNX file that applies an operator to an input of shape (N, 6)."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 6]) for n in "xy")
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "net", [x], [y])
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(gallery, "FOLDER", tmp_path)
    monkeypatch.setattr(gallery, "ENGINES", ("numpy", "onnxruntime"))
    monkeypatch.setattr(gallery, "PACKAGES", tmp_path / "toy")
    (tmp_path / "written").mkdir()
    save(tmp_path / "toy" / "net.onnx", "Tanh")
    save(tmp_path / "toy" / "other.onnx", "Sigmoid")
    return tmp_path / "toy"


def toy(file: str = "net.onnx", **more: Any) -> Model:
    return Model("toy", "MIT", file, "a test", lambda: {"x": X}, {"x": ("N", 6)}, **more)


def test_network_is_compared_with_its_own_file_and_written(package: Path) -> None:
    result = gallery.result("toy", toy())
    assert (result.failure, result.refused) == ("", {})
    assert result.error is not None
    assert 0 <= result.error < 1e-6
    assert result.written[0] == "ONNX (open)"
    assert "Caffe" in result.written


def test_other_numbers_are_seen(package: Path) -> None:
    error = gallery.result("toy", toy(reference="other.onnx")).error
    assert error == pytest.approx(np.abs(np.tanh(X) - 1 / (1 + np.exp(-X))).max() / (1 / (1 + np.exp(-X))).max())


OPENCV = """
import sys
from pathlib import Path
import numpy as np
from gallery import __main__ as gallery
gallery.FOLDER = Path(sys.argv[1])
gallery.PACKAGES = next(Path(sys.argv[2]).parent.parent.glob("lib/python*/site-packages"))
x = np.arange(96, dtype=np.float32).reshape(1, 1, 8, 12)
found = gallery.opencv("net", {"data": x})()["up"]
net = gallery.anylayer.read(*gallery.caffe_files("net"), layers=["examples/hed/layers.py"])
want = net.compile("numpy")(x)["up"]
print(found.shape == want.shape == x.shape, np.ptp(want) > 1, np.abs(found - want).max() < 1e-4)
"""


@pytest.mark.skipif(not os.environ.get("ANYLAYER_OPENCV4"), reason="OpenCV 4 is not installed")
def test_caffe_files_run_in_opencv(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text("""
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 8 dim: 12 } } }
layer { name: "small" type: "Pooling" bottom: "data" top: "small"
        pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: "up" type: "ResizeLike" bottom: "small" bottom: "data" top: "up" }
""")
    (tmp_path / "net.caffemodel").write_bytes(b"\xa2\x06\x07\n\x05small")  # a layer without weights
    command = [sys.executable, "-c", OPENCV, str(tmp_path), os.environ["ANYLAYER_OPENCV4"]]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert shown == "True True True\n"


def test_failure_is_shown_as_a_failure(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(MODELS, "toy", toy("absent.onnx"))
    assert gallery.main(["toy"]) == 1
    assert "**failed**: FileError: " in capsys.readouterr().out


def test_every_package_is_pinned_with_its_hash() -> None:
    rows = [r for r in gallery.REQUIREMENTS.read_text().splitlines() if not r.startswith("#")]
    pins = [re.fullmatch(r"([\w-]+)==[\d.]+( --hash=sha256:[0-9a-f]{64})+", row) for row in rows]
    runtimes = {"opencv-python-headless", "ai-edge-litert"}
    assert {pin and pin[1] for pin in pins} == {m.package for m in MODELS.values()} | runtimes
    (demo,) = (r for r in (ROOT / "examples/hed/weights.txt").read_text().splitlines() if not r.startswith("#"))
    assert demo in rows


@pytest.mark.parametrize("name", MODELS)
def test_inputs_are_not_constant_and_fit_the_open_shapes(name: str) -> None:
    feed = MODELS[name].feed()
    assert any(np.asarray(x).std() > 0 for x in feed.values())
    for key, shape in MODELS[name].open.items():
        assert len(shape) == feed[key].ndim
        assert all(isinstance(n, str) or n == d for n, d in zip(shape, feed[key].shape))


def test_page_has_a_row_for_every_network() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text()
    assert list(MODELS) == re.findall(r"^\| ([a-z0-9-]+) \| [a-z-]+ \| [AM]", page, re.M)


def test_outputs_are_shown_as_a_person_reads_them(package: Path) -> None:
    model = onnx.load(package / "net.onnx")
    model.metadata_props.add(key="character", value="a\nb")
    onnx.save(model, package / "net.onnx")
    best = np.eye(4, dtype=np.float32)[[1, 1, 0, 1, 3, 2]]  # a a blank a space b
    assert outputs.text({"y": best[None]}, package / "net.onnx", package / "x.png") == "'aa b'"
    notes = np.zeros((1, 10, 88), np.float32)
    notes[0, :5, 36] = notes[0, :, 40] = notes[0, :2, 50] = 1
    assert outputs.pitches({"note": notes, "onset": notes * 0}, package, package) == "A3 C#4"
    assert outputs.voice({"output": np.float32([[0.25]])}, package, package) == "voice 0.25"
    shown = toy(comes_out=outputs.voice)
    assert gallery.result("toy", shown).comes_out == f"voice {np.tanh(X).ravel()[-1]:.2f}"


def test_command_states_sizes_and_constants() -> None:
    command = gallery.command("toy", toy(constants={"sr": 16000}))
    assert command == "anylayer convert net.onnx --shape x=N,6 --constant sr=16000 -o toy.onnx"
