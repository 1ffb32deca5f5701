"""Frames run in batches where that is faster, otherwise one by one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from anylayer.cli import running

NET = (
    "run",
    "net.prototxt",
    "-l",
    "layers.py",
    "-e",
    "onnxruntime",
    "-i",
    "in",
    "--blob",
    "means",
    "-o",
    "all.npy",
)


@pytest.fixture
def folder(small, monkeypatch):
    """Write five images. Return a function that sets the measured time of a frame and of a batch.

    That function returns the list of batch sizes of later runs.
    """
    (small / "in").mkdir()
    for i in range(5):
        Image.new("RGB", (6, 4), (0, 0, 10 * i)).save(small / "in" / f"{i}.png")

    def seconds(frame: float, batch: float) -> list[int]:
        called: list[int] = []

        def timed(model, arrays):
            called.append(len(arrays["data"]))
            return model(arrays), frame if called[-1] == 1 else batch

        monkeypatch.setattr(running, "_run_timed", timed)
        return called

    return seconds


def test_frames_run_one_by_one_if_batch_is_slower(anylayer_command, folder):
    called = folder(frame=1, batch=3)
    result = anylayer_command(*NET, "--batch", 2)
    assert called == [1, 1, 2, 2, 1, 1, 1]
    assert "one by one, because it is faster: 1.5 s per frame in a batch of 2, 1 s alone\n" in result.stderr
    assert_array_equal(np.load("all.npy")[:, 0], [0, 5, 10, 15, 20])
    assert json.loads(anylayer_command(*NET, "--batch", 2, "--json").stdout)["batch"] == 1


def test_faster_batch_is_kept_and_last_one_padded(anylayer_command, folder):
    called = folder(frame=1, batch=1.5)
    result = anylayer_command(*NET, "--batch", 2, "--json")
    assert called == [1, 1, 2, 2, 2]
    assert "one by one" not in result.stderr
    assert json.loads(result.stdout)["batch"] == 2
    assert_array_equal(np.load("all.npy")[:, 0], [0, 5, 10, 15, 20])


def test_broken_images_leave_full_batches(anylayer_command, folder, small):
    (small / "in" / "1.png").write_bytes(b"")
    called = folder(frame=1, batch=1.5)
    anylayer_command(*NET, "--batch", 3, status=1)
    assert called == [1, 1, 3, 3]
    assert_array_equal(np.load("all.npy")[:, 0], [0, 10, 15, 20])


def test_frame_of_other_size_runs_alone(anylayer_command, folder, small):
    Image.new("RGB", (3, 3), (0, 0, 60)).save(small / "in" / "5.png")
    called = folder(frame=1, batch=1.5)
    anylayer_command(*NET, "--batch", 2, "--size", "keep")
    assert called == [1, 1, 2, 2, 2, 1]
    assert_array_equal(np.load("all.npy")[:, 0], [0, 5, 10, 15, 20, 30])


def test_batch_is_kept_if_layer_mixes_samples(anylayer_command, folder, small):
    layers = (small / "layers.py").read_text()
    mixing = "inputs[0].mean(axis=(2, 3)) - inputs[0].mean(axis=(0, 2, 3))"
    (small / "layers.py").write_text(layers.replace("inputs[0].mean(axis=(2, 3))", mixing))
    called = folder(frame=1, batch=10)
    anylayer_command(*NET, "--batch", 5)
    assert called == [1, 1, 1, 1, 1, 5, 5]
    assert_array_equal(np.load("all.npy")[:, 0], [-10, -5, 0, 5, 10])


def test_frames_run_one_by_one_if_network_fails_on_batch(anylayer_command, folder, small):
    layers = (small / "layers.py").read_text()
    (small / "layers.py").write_text(layers.replace("inputs[0].mean(", "inputs[0].reshape(1, 3, 4, 6).mean("))
    folder(frame=1, batch=1)
    result = anylayer_command(*NET, "--batch", 2)
    assert "one by one: net.prototxt:5: layer 'means' (Means)" in result.stderr
    assert_array_equal(np.load("all.npy")[:, 0], [0, 5, 10, 15, 20])


def test_single_frame_pads_fixed_batch(anylayer_command, folder, small):
    net = (small / "net.prototxt").read_text().replace("dim: 1 dim: 3", "dim: 4 dim: 3")
    (small / "net.prototxt").write_text(net)
    layers = (small / "layers.py").read_text()
    (small / "layers.py").write_text(layers.replace("inputs[0].mean(", "inputs[0].reshape(4, 3, 4, 6).mean("))
    words = [word if word != "in" else "in/3.png" for word in NET]
    result = anylayer_command(*words)
    assert_array_equal(np.load("all.npy"), [[15, 0, 0]])
    assert "the network accepts only batches of 4: padded with the last frame\n" in result.stderr
    for more in ((), ("--batch", 2), ("--batch", 3)):
        anylayer_command(*NET, *more)
        assert_array_equal(np.load("all.npy")[:, 0], [0, 5, 10, 15, 20])
