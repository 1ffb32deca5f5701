"""The command run, from its arguments to the files that it writes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.runtime.order import transposed_inputs
from tests.engine_names import ALL
from tests.layers.tflite.recorded import recorded

NET = ("run", "net.prototxt", "-l", "layers.py", "-e", "onnxruntime")
MEANS = [15, 10, 5]  # half of B, G, R = 30, 20, 10; shuffling three groups of one channel changes nothing


def test_outputs_go_to_stdout_and_report_to_stderr(anylayer_command, small):
    result = anylayer_command(*NET, "-i", "picture.png")
    assert result.stdout.splitlines() == [
        "flat float32[1, 1, 4, 6]: 0.0588235..0.0588235, mean 0.0588235",
        "means float32[1, 3]",
        "          15      0",
        "          10      1",
        "           5      2",
    ]
    said = result.stderr.splitlines()
    assert said[0] == "input 'data': resize to 6x4, BGR (no transform_param in the file, no options given)"
    assert said[1].startswith("engine onnxruntime: ")
    assert said[1].endswith(" ms per frame")
    assert said[2] == (
        "layers from your files: Times (layers.py, 1 node), Means (layers.py, 1 node), Flat (layers.py, 1 node); "
        "none of them runs in Python"
    )


def test_quiet_prints_only_results(anylayer_command, small):
    result = anylayer_command(*NET, "-i", "picture.png", "--quiet", "-o", "m.npz")
    assert result.stderr == ""
    assert result.stdout.startswith("flat float32[1, 1, 4, 6]")
    assert (small / "m.npz").exists()


@pytest.mark.parametrize("engine", [*ALL, "auto"])
def test_all_engines_agree(anylayer_command, small, engine):
    anylayer_command(*NET, "-e", engine, "-i", "x.npy", "-o", f"{engine}.npz")
    x = np.load("x.npy")
    found = np.load(f"{engine}.npz")
    assert_allclose(found["means"], x.mean((2, 3)) / 2, rtol=1e-5)
    assert_allclose(found["flat"], x[:, 0:1] / 510, rtol=1e-5)


def test_stdout_has_only_json(anylayer_command, small):
    result = anylayer_command(*NET, "-i", "picture.png", "--json", "--top", "1", "-o", "flat.png", "-o", "x.json")
    data = json.loads(result.stdout)
    assert data["engine"] == "onnxruntime"
    assert data["ms_a_frame"] > 0
    assert {t: Path(f).name for t, f in data["layers"].items()} == dict.fromkeys(
        ("Times", "Means", "Flat"), "layers.py"
    )
    assert data["host_calls"] == []
    assert data["written"] == ["flat.png", "x.json"]
    (shown,) = data["results"]
    assert shown["input"] == "picture.png"
    assert shown["outputs"]["means"]["top"] == [{"class": 0, "label": "", "score": 15.0}]
    assert shown["outputs"]["flat"]["shape"] == [1, 1, 4, 6]
    assert json.loads((small / "x.json").read_text())["means"] == [MEANS]


def test_labels_and_top_options(anylayer_command, small):
    (small / "labels.txt").write_text("blue\ngreen\nred\n")
    shown = anylayer_command(*NET, "-i", "picture.png", "--blob", "means", "--labels", "labels.txt", "--top", 2)
    assert shown.stdout.splitlines() == [
        "means float32[1, 3]",
        "          15      0  blue",
        "          10      1  green",
    ]


def test_host_call_is_reported_with_reason(anylayer_command, small):
    result = anylayer_command("run", "net.prototxt", "-l", "host.py", "-e", "onnxruntime", "-i", "picture.png")
    said = result.stderr.splitlines()
    assert said[-2].endswith("; in Python: 1 node")
    assert said[-1].startswith("layer 'means' (Means) runs in Python: ")
    assert "host.py:" in said[-1]
    assert "          15      0" in result.stdout


def test_image_options_are_applied_and_reported(anylayer_command, small):
    words = ("--mean", "1,2,3", "--scale", "1/2", "--swap-rb", "--size", "3x2")
    result = anylayer_command(*NET, "-i", "picture.png", *words, "-o", "out.npz")
    assert result.stderr.splitlines()[0] == (
        "input 'data': resize to 3x2, RGB, minus mean 1,2,3, times 0.5 (from the options)"
    )
    found = np.load("out.npz")
    assert found["flat"].shape == (1, 1, 2, 3)
    assert_allclose(found["means"], [[(10 - 1) / 4, (20 - 2) / 4, (30 - 3) / 4]])


def test_transform_of_file_is_used(anylayer_command, small):
    text = (small / "net.prototxt").read_text()
    transform = "transform_param { mean_value: 3 mean_value: 2 mean_value: 1 scale: 0.5 crop_size: 2 }"
    (small / "own.prototxt").write_text(text.replace("input_param", transform + " input_param", 1))
    result = anylayer_command("run", "own.prototxt", *NET[2:], "-i", "picture.png", "--size", "4", "-o", "out.npz")
    assert result.stderr.splitlines()[0].startswith(
        "input 'data': resize to 4x4, BGR, minus mean 3,2,1, center 2x2, times 0.5 (transform_param of"
    )
    found = np.load("out.npz")
    assert found["flat"].shape == (1, 1, 2, 2)
    assert_allclose(found["means"], [[27 / 4, 18 / 4, 9 / 4]])


def test_map_is_written_as_image(anylayer_command, small):
    result = anylayer_command(*NET, "-i", "picture.png", "-o", "flat.png")
    assert "wrote flat.png: 'flat' 6x4, 0 is black, 1 white" in result.stderr
    assert_array_equal(np.asarray(Image.open("flat.png")), np.full((4, 6), 15))


def test_blob_option_selects_any_blob(anylayer_command, small):
    result = anylayer_command(*NET, "-i", "x.npy", "--blob", "shuffle", "-o", "s.npy", "-o", "s.png")
    assert_array_equal(np.load("s.npy"), np.load("x.npy"))
    assert "the largest of 3 channels" in result.stderr
    assert result.stdout.startswith("shuffle float32[1, 3, 4, 6]: 0..71, mean 35.5")
    failed = anylayer_command(*NET, "-i", "x.npy", "--blob", "shufle", status=1)
    assert failed.stderr.endswith("net.prototxt: there is no blob 'shufle'; did you mean 'shuffle'?\n")


def test_folder_runs_in_batches(anylayer_command, small):
    (small / "in").mkdir()
    for i in range(5):
        Image.new("RGB", (6, 4), (0, 0, 10 * i)).save(small / "in" / f"{i}.png")
    words = ("-i", "in", "--batch", "2", "--blob", "means", "-o", "all.npz", "-o", "each/{name}.npy")
    result = anylayer_command(*NET, *words)
    assert result.stdout.splitlines()[::5] == [f"in/{i}.png:" for i in range(5)]
    assert_array_equal(np.load("all.npz")["means"][:, 0], [0, 5, 10, 15, 20])
    assert sorted(p.name for p in (small / "each").iterdir()) == [f"{i}.npy" for i in range(5)]
    assert_array_equal(np.load("each/3.npy"), [[15, 0, 0]])
    assert re.search(r"median of \d runs", result.stderr)


@pytest.mark.parametrize("batch", [1, 2])
def test_broken_image_in_folder_is_skipped(anylayer_command, small, batch):
    (small / "in").mkdir()
    for i in range(4):
        Image.new("RGB", (6, 4), (0, 0, 10 * i)).save(small / "in" / f"{i}.png")
    whole = (small / "in" / "1.png").read_bytes()
    (small / "in" / "1.png").write_bytes(b"no image")
    words = ("-i", "in", "--batch", batch, "--blob", "means")
    result = anylayer_command(*NET, *words, "-o", "each/{name}.npy", "-o", "all.npy", status=1)
    assert result.stdout.splitlines()[::5] == [f"in/{i}.png:" for i in (0, 2, 3)]
    assert "skipped: in/1.png: this is not an image of a known format\n" in result.stderr
    assert result.stderr.endswith("1 of 4 inputs could not be read and was skipped\n")
    assert sorted(p.name for p in (small / "each").iterdir()) == ["0.npy", "2.npy", "3.npy"]
    assert_array_equal(np.load("all.npy")[:, 0], [0, 10, 15])
    data = json.loads(anylayer_command(*NET, *words, "--json", status=1).stdout)
    assert [r["input"] for r in data["results"]] == [f"in/{i}.png" for i in range(4)]
    assert data["results"][1]["error"] == "in/1.png: this is not an image of a known format"
    (small / "in" / "1.png").write_bytes(whole)
    anylayer_command(*NET, *words)


def test_folder_with_only_broken_images(anylayer_command, small):
    (small / "in").mkdir()
    for name in "ab":
        (small / "in" / f"{name}.png").write_bytes(b"no image")
    result = anylayer_command(*NET, "-i", "in", "-o", "all.npz", status=1)
    assert result.stderr.endswith("2 of 2 inputs could not be read and were skipped\n")
    assert result.stdout == ""
    assert not (small / "all.npz").exists()


def test_single_broken_image_is_an_error(anylayer_command, small):
    (small / "picture.png").write_bytes(b"no image")
    result = anylayer_command(*NET, "-i", "picture.png", status=1)
    assert result.stderr.endswith("picture.png: this is not an image of a known format\n")
    assert "skipped" not in result.stderr


def test_json_names_file_of_each_input(anylayer_command, small):
    Image.new("RGB", (6, 4), (0, 0, 20)).save(small / "b.png")
    anylayer_command(*NET, "-i", "picture.png", "b.png", "--blob", "means", "-o", "all.json")
    assert json.loads((small / "all.json").read_text()) == [
        {"input": "picture.png", "outputs": {"means": [MEANS]}},
        {"input": "b.png", "outputs": {"means": [[10, 0, 0]]}},
    ]


def test_list_of_written_files_is_limited(anylayer_command, small):
    specs = [f"data={small / 'picture.png'}"]
    for i in range(23):
        Image.new("RGB", (6, 4)).save(small / f"p{i}.png")
        specs.append(f"p{i}.png")
    result = anylayer_command(*NET, "-i", *specs, "--blob", "flat", "-o", "out/{name}.png")
    assert result.stderr.count("wrote ") == 20
    assert "... and 4 more files\n" in result.stderr
    assert len(list((small / "out").iterdir())) == 24


def test_progress_bar_only_on_terminal(small):
    terminal, end = pty.openpty()
    words = [*NET, "-i", "picture.png", "picture.png", "--batch", "1", "--blob", "means", "--json"]
    command = [sys.executable, "-c", "from anylayer.cli import main; main()", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=end, check=True)
    os.close(end)
    shown = b""
    with suppress(OSError):  # the end of what a terminal was sent
        while part := os.read(terminal, 1 << 16):
            shown += part
    os.close(terminal)
    assert b"2/2" in shown
    assert len(json.loads(done.stdout)["results"]) == 2
    done = subprocess.run(command, capture_output=True, check=True)
    assert b"2/2" not in done.stderr


def test_images_of_different_sizes_run_one_by_one(anylayer_command, small):
    Image.new("RGB", (3, 3), (0, 0, 10)).save(small / "other.png")
    words = ("-i", "picture.png", "other.png", "--size", "keep", "--batch", "2", "-o", "{name}.npz")
    anylayer_command(*NET, *words)
    assert np.load("picture.npz")["flat"].shape == (1, 1, 4, 6)
    assert np.load("other.npz")["flat"].shape == (1, 1, 3, 3)


def test_shape_option_sets_input_size(anylayer_command, small):
    anylayer_command(*NET, "-i", "picture.png", "--shape", "data=1,3,8,10", "-o", "a.npz")
    assert np.load("a.npz")["flat"].shape == (1, 1, 8, 10)
    failed = anylayer_command(*NET, "-i", "picture.png", "--shape", "dta=1,3,8,10", status=1)
    assert "the network has no input 'dta'; did you mean 'data'?" in failed.stderr


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("-i", "gone.png"), 1, "gone.png: there is no such file"),
        (("-i", "layers.py"), 1, "layers.py holds Python code"),
        (("-i", "data=[1, 2]"), 1, "expected 4 dimensions, got shape (2,)"),
        (("-i", "x.npy", "-e", "tensorflow"), 1, "there is no engine 'tensorflow'"),
        (("-i", "x.npy", "-o", "means.png", "--blob", "means"), 1, "no output is a map or detections"),
        (("-i", "x.npy", "--show", "detections"), 1, "detections have 7 values per row"),
        (("-i", "x.npy", "--labels", "gone.txt"), 1, "gone.txt: there is no such file"),
        (("-i", "x.npy", "--show", "nonsense"), 2, "'nonsense' is not one of"),
        (("-i", "x.npy", "--size", "0"), 2, "a size is WIDTHxHEIGHT, one number, or keep, got '0'"),
        ((), 2, "Missing option '-i'"),
    ],
)
def test_errors_are_one_message(anylayer_command, small, words, status, message):
    result = anylayer_command(*NET, *words, status=status)
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert sorted(p.name for p in small.glob("*.png")) == ["picture.png"]


def test_all_unknown_layers_are_named(anylayer_command, small):
    result = anylayer_command("run", "net.prototxt", "-i", "x.npy", status=1)
    for type_ in ("Times", "Means", "Flat"):
        assert f"'{type_}'" in result.stderr
    assert "anylayer stub -o layers.py net.prototxt" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_missing_input_is_named(anylayer_command, small):
    text = (small / "net.prototxt").read_text()
    (small / "two.prototxt").write_text(
        text + 'layer { name: "i" type: "Input" top: "info" input_param { shape { dim: 1 dim: 3 } } }\n'
        'layer { name: "t" type: "Times" bottom: "info" top: "t" times_param { factor: 2 } }\n'
    )
    words = ("run", "two.prototxt", *NET[2:], "-i", "picture.png")
    assert "input 'info' is missing: give -i info=FILE" in anylayer_command(*words, status=1).stderr
    anylayer_command(*words, "info=[1, 2, 3]", "--blob", "t", "-o", "t.npy")
    assert_array_equal(np.load("t.npy"), [[2, 4, 6]])


@needs_data("models")
def test_detections_are_drawn_on_image(anylayer_command, tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, (60, 90, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    folder = REFERENCE / "models" / "mobilenet_ssd"
    result = anylayer_command(
        *("run", folder / "deploy.prototxt", folder / "weights.caffemodel", "--dialect", "ssd"),
        *("-i", tmp_path / "noise.png", "--mean", "127.5", "--scale", "0.007843", "--threshold", "0.3"),
        *("-e", "onnxruntime", "-o", tmp_path / "drawn.png", "--json"),
    )
    found = json.loads(result.stdout)["results"][0]["outputs"]["detection_out"]
    assert found["unit"] == "pixels"
    assert len(found["detections"]) == found["shape"][2]
    drawn = np.asarray(Image.open(tmp_path / "drawn.png"))
    assert drawn.shape == (60, 90, 3)
    assert (drawn != noise).any()


@needs_data("models")
def test_lenet_matches_caffe(anylayer_command, tmp_path):
    folder = REFERENCE / "models" / "lenet"
    words = ("run", folder / "deploy.prototxt", folder / "weights.caffemodel", "-i", folder / "input_data.npy")
    anylayer_command(*words, "-o", tmp_path / "prob.npy")
    assert_allclose(np.load(tmp_path / "prob.npy"), np.load(folder / "output_prob.npy"), atol=1e-5)


def test_pixels_option_matches_keras(anylayer_command, small):
    words = ("run", "net.prototxt", "-l", "layers.py", "-i", "picture.png", "-o", "out.npz", "--blob", "data")
    shown = anylayer_command(*words, "--pixels", "tf").stderr
    assert shown.startswith(
        "input 'data': resize to 6x4, RGB, minus mean 127.5, times 0.00784314 (from the options)\n"
    )
    data = np.load("out.npz")["data"]
    np.testing.assert_allclose(data[0, :, 0, 0], np.array([10, 20, 30]) / 127.5 - 1, atol=1e-6)
    anylayer_command(*words, "--pixels", "torch")
    want = (np.array([10, 20, 30]) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(np.load("out.npz")["data"][0, :, 0, 0], want, rtol=1e-5)
    anylayer_command(*words, "--pixels", "caffe")
    want = np.array([30, 20, 10]) - [103.939, 116.779, 123.68]
    np.testing.assert_allclose(np.load("out.npz")["data"][0, :, 0, 0], want, rtol=1e-5)
    text = "--pixels replaces --mean, --scale and --swap-rb; give either it or them"
    assert text in anylayer_command(*words, "--pixels", "tf", "--swap-rb", status=2).stderr


def test_channels_last_array_gives_note(anylayer_command, small):
    np.save("last.npy", np.zeros((1, 4, 6, 3), np.float32))
    note = (
        "note: input 'data' is (N, C, H, W) = [1, 3, 4, 6] in the file, the array [1, 4, 6, 3] seems to have its "
        "channels last: transpose it, x.transpose(0, 3, 1, 2)\n"
    )
    command = ["run", "net.prototxt", "-l", "layers.py", "-e", "numpy", "--blob", "half"]
    text = (small / "net.prototxt").read_text().replace("group: 3", "group: 1")
    (small / "net.prototxt").write_text(text)
    assert note in anylayer_command(*command, "-i", "last.npy").stderr
    assert "note: input" not in anylayer_command(*command, "-i", "x.npy").stderr
    network = anylayer.read("net.prototxt", layers=["layers.py"]).network
    assert not list(transposed_inputs(network, {"data": (1, 1, 20, 3)}))


def test_array_without_batch_axis_is_refused_with_remedy(anylayer_command, small):
    np.save("one.npy", np.zeros((3, 4, 6), np.float32))
    said = anylayer_command(*NET, "-i", "one.npy", status=1).stderr
    assert "expected 4 dimensions, got shape (3, 4, 6). Add the batch axis: x[None]" in said


def test_array_with_other_sizes_than_shape_is_refused(anylayer_command, small):
    np.save("x.npy", np.zeros((2, 3, 4, 6), np.float32))
    wrong = anylayer_command(*NET, "-i", "x.npy", "--shape", "1,3,8,6", status=1).stderr
    assert (
        wrong
        == "input 'data' has shape (2, 3, 4, 6), but --shape says (1, 3, 8, 6); leave out --shape for arrays\n"
    )
    anylayer_command(*NET, "-i", "x.npy", "--shape", "1,3,4,6")


def test_reading_of_ambiguous_params_is_reported(anylayer_command, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("crop.prototxt").write_text(
        'input: "a" input_shape { dim: 1 dim: 1 dim: 4 dim: 4 } '
        'input: "b" input_shape { dim: 1 dim: 1 dim: 2 dim: 2 }'
        ' layer { name: "crop" type: "Crop" bottom: "a" bottom: "b" top: "crop" }'
    )
    np.save("a.npy", np.zeros((1, 1, 4, 4), np.float32))
    np.save("b.npy", np.zeros((1, 1, 2, 2), np.float32))
    note = "note: crop.prototxt:1: layer 'crop' (Crop): Crop without crop_param cuts from the corner"
    run = anylayer_command("run", "crop.prototxt", "-i", "a=a.npy", "-i", "b=b.npy", "-e", "onnxruntime")
    assert note in run.stderr
    assert note in anylayer_command("convert", "crop.prototxt", "-o", "crop.onnx").stderr


def test_network_whose_inputs_are_constant_runs_without_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anylayer_command: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.prototxt").write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 } } }\n'
        'layer { name: "y" type: "Power" bottom: "x" top: "y" power_param { shift: 2 } }\n'
    )
    anylayer_command("run", "n.prototxt", "--constant", "x=[[1, 2, 3]]", "-o", "y.npy")
    np.testing.assert_array_equal(np.load("y.npy"), [[3, 4, 5]])
    missing = anylayer_command("run", "n.prototxt", status=2)
    assert "Missing option '-i' / '--input': the network has inputs x" in missing.stderr


def test_state_may_be_left_out(anylayer_command, tmp_path):
    case = recorded()["READ_VARIABLE first"]
    np.save(tmp_path / "x.npy", case.inputs["in0"])
    arguments = ("run", case.save(tmp_path), "-e", "numpy", "-o", tmp_path / "y.npz")
    anylayer_command(*arguments, "-i", f"in0={tmp_path / 'x.npy'}")
    with np.load(tmp_path / "y.npz") as results:
        assert_allclose(results["out0"], case.outputs["out0"], 1e-6)
        assert_array_equal(results["state/next"], results["out0"])
