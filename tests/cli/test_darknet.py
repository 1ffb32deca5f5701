"""The commands on a network of Darknet, with its weights."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from tests.readers.darknet import test_reader as darknet


@pytest.fixture
def network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    darknet.files()
    np.save("x.npy", np.random.default_rng(0).random((1, 3, 64, 32), np.float32))


FILES = ("net.cfg", "net.weights")


def test_inspect_shows_sections(anylayer_command, network):
    shown = anylayer_command("inspect", *FILES).stdout
    assert "pad=1 activation=leaky" in shown and "concat_4" in shown and "route" in shown
    assert "8 nodes, 382 weights" in shown and "in Python: 0; unknown: 0" in shown


def test_run_shows_boxes_and_maps(anylayer_command, network):
    assert "yolo_3 float32[1024, 7]" in anylayer_command("run", *FILES, "-i", "x.npy").stdout
    assert (
        "conv_6 float32[1, 14, 64, 32]"
        in anylayer_command("run", *FILES, "-i", "x.npy", "--blob", "conv_6").stdout
    )


def test_images_are_read_as_darknet_does(anylayer_command, network):
    from PIL import Image

    Image.new("RGB", (50, 40), (255, 0, 0)).save("red.png")
    done = anylayer_command("run", *FILES, "-i", "red.png")
    assert "resize to 32x64, RGB, times 0.00392157" in done.stdout + done.stderr


def test_raw_maps_and_letter_box(anylayer_command: Any, network: None) -> None:
    from PIL import Image

    text = Path("net.cfg").read_text()
    Path("net.cfg").write_text(text.replace("[net]", "[net]\nletter_box=1", 1))
    Image.new("RGB", (50, 40), (255, 0, 0)).save("red.png")
    done = anylayer_command("run", *FILES, "-i", "red.png", "--raw")
    assert "letterbox to 32x64, RGB, times 0.00392157" in done.stdout + done.stderr
    assert "conv_6 float32[1, 14, 64, 32]" in done.stdout and "yolo" not in done.stdout
    anylayer_command("convert", *FILES, "-o", "maps.onnx", "--raw", "--quiet")
    assert sorted(anylayer.read("maps.onnx").network.outputs) == ["conv_2", "conv_6"]


def test_verify_and_report_compare_every_node(anylayer_command, network):
    assert "all 8 nodes compared agree with NumPy" in anylayer_command("verify", *FILES, "-i", "x.npy").stdout
    anylayer_command("report", *FILES, "-o", "report.html")


def test_stub_writes_a_class_for_an_unknown_section(anylayer_command, network):
    darknet.files(darknet.MIXED)
    anylayer_command("stub", *FILES, "-o", "layers.py")
    text = Path("layers.py").read_text()
    assert 'self.rate = params["rate"]  # 0.5' in text and '@anylayer.layer("mixer")' in text


def test_pytorch_module_computes_the_same(anylayer_command, network):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    shown = anylayer_command("generate", *FILES, "--for", "pytorch", "-o", "module")
    assert "its test passes" in shown.stdout + shown.stderr


def test_dialect_of_the_weights_is_not_that_of_the_written_file(anylayer_command, network):
    names = "--dialect", "pjreddie"
    shown = anylayer_command("convert", *FILES, *names, "-o", "out.prototxt", "--to-dialect", "ssd")
    assert "wrote out.prototxt" in shown.stdout + shown.stderr
    anylayer_command("convert", *FILES, "--dialect", "ssd", "-o", "other.prototxt")
    assert Path("out.prototxt").read_text() == Path("other.prototxt").read_text()
    text = anylayer_command("convert", *FILES, *names, "-o", "bvlc.prototxt", status=1).stderr
    assert "dialect 'bvlc'" in text
    text = anylayer_command("convert", *FILES, "--dialect", "sdd", "-o", "out.onnx", status=1).stderr
    assert "there is no dialect 'sdd'" in text and "pjreddie" in text


def test_identify_tells_who_wrote_the_weights(anylayer_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights = (0.5 * np.random.default_rng(0).standard_normal(84)).astype("<f4").tobytes()
    darknet.files(darknet.LSTM, darknet.HEADER + weights)
    x = np.random.default_rng(1).standard_normal((1, 2)).astype(np.float32)
    np.savez("in.npz", data=x)
    for dialect in ("pjreddie", "alexeyab"):
        net = anylayer.read(*FILES, dialect=dialect)
        np.savez("out.npz", lstm_0=net.compile("numpy")({"data": x})["lstm_0"])
        shown = anylayer_command("identify", *FILES, "-i", "in.npz", "--expect", "out.npz").stdout
        assert f"read the network with --dialect {dialect}" in shown
