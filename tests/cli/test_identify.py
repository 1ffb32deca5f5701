"""The command `identify`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from .conftest import Run

X = np.exp(np.random.default_rng(0).standard_normal((1, 4, 4, 4), np.float32))
NET = """name: "net"
input: "x" input_shape { dim: 1 dim: 4 dim: 4 dim: 4 }
layer { name: "reorg" type: "Reorg" bottom: "x" top: "reorg" reorg_param { stride: 2 } }
layer { name: "log" type: "Log" bottom: "reorg" top: "log" log_param { shift: 9 } }
"""
IN_ORDER_OF_ASCEND = X.reshape(1, 4, 2, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 16, 2, 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: net.prototxt, in.npz, and out.npz for Reorg of ascend and Log of opencv."""
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(NET)
    np.savez("in.npz", x=X)
    np.savez("out.npz", log=np.log(IN_ORDER_OF_ASCEND))
    return tmp_path


def test_printed_line_computes_the_expected_blobs(folder: Path, anylayer_command: Run) -> None:
    Path("net.prototxt").write_text(NET[: NET.index('layer { name: "log"')])
    np.save("out.npy", IN_ORDER_OF_ASCEND)
    found = anylayer_command("identify", "net.prototxt", "-i", "in.npz", "--expect", "out.npy")
    first, fits, does_not, *remedies = found.stdout.splitlines()
    assert first == "reproduced: 'reorg' (largest difference 0.0e+00 of the largest value)"
    assert fits.startswith("fits: ascend")
    assert does_not.startswith("does not fit: no dialect, darknet, ")
    assert remedies == [
        "-> read the network with --dialect ascend",
        "  anylayer run net.prototxt -i in.npz --dialect ascend -o out.npz",
    ]
    anylayer_command(*shlex.split(found.stdout.splitlines()[-1])[1:])
    assert np.array_equal(np.load("out.npz")["reorg"], IN_ORDER_OF_ASCEND)


def test_printed_layers_file_joins_two_dialects(folder: Path, anylayer_command: Run) -> None:
    want = np.load("out.npz")["log"]
    shown = anylayer_command("identify", "net.prototxt", "-i", "in.npz", "--expect", "out.npz").stdout
    assert "ascend, Log as in opencv" in shown
    before, _, code = shown.partition("where layers.py is:\n")
    code, line = code.rsplit("\n  anylayer", 1)
    assert "-> read the network with --dialect " in before
    Path("layers.py").write_text(code)
    anylayer_command(*shlex.split(line))
    np.testing.assert_allclose(np.load("out.npz")["log"], want, rtol=1e-5, atol=1e-6)


def test_first_blob_that_nothing_reproduces_ends_with_status_1(folder: Path, anylayer_command: Run) -> None:
    np.savez("out.npz", reorg=IN_ORDER_OF_ASCEND, log=np.zeros((1, 16, 2, 2), np.float32))
    shown = anylayer_command("identify", "net.prototxt", "-i", "in.npz", "--expect", "out.npz", status=1).stdout
    assert "reproduced: 'reorg'" in shown
    assert "no meaning reproduces blob 'log' of net.prototxt:4: layer 'log' (Log)" in shown
    assert "-> define the layer in a layers file, or correct its parameters" in shown


def test_json_has_the_dialects_and_the_attempts(folder: Path, anylayer_command: Run) -> None:
    words = "identify", "net.prototxt", "-i", "in.npz", "--json", "--expect"
    np.savez("reorg.npz", reorg=IN_ORDER_OF_ASCEND)
    found = json.loads(anylayer_command(*words, "reorg.npz").stdout)
    assert (found["ok"], found["dialects"], found["first"]) == (True, ["ascend", "sophgo"], None)
    assert found["remedies"] == ["read the network with --dialect ascend"]
    np.savez("wrong.npz", reorg=IN_ORDER_OF_ASCEND * 2)
    found = json.loads(anylayer_command(*words, "wrong.npz", status=1).stdout)
    assert (found["ok"], found["dialects"], found["first"]) == (False, [], "reorg")
    assert {a["choice"]: a["difference"] for a in found["attempts"]}["ascend"] == pytest.approx(0.5)


def test_tolerance_accepts_coarser_numbers(folder: Path, anylayer_command: Run) -> None:
    np.save("half.npy", IN_ORDER_OF_ASCEND.astype(np.float16))
    words = "identify", "net.prototxt", "-i", "in.npz", "--expect", "reorg=half.npy"
    anylayer_command(*words, status=1)
    assert "fits: ascend" in anylayer_command(*words, "--tolerance", "1e-3").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--expect", "out.npz"], "input 'x' is missing; the network's inputs: x"),
        (["-i", "in.npz", "--expect", "log=out.npz"], "an .npz has the names of the blobs; leave out log="),
        (["-i", "in.npz", "--expect", "net.prototxt"], "expected arrays are in an .npz or .npy file"),
        (["-i", "in.npz", "--expect", "in.npz"], "nothing can be compared"),
        (["-i", "in.npz", "--expect", "none.npz"], "none.npz: there is no such file"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    folder: Path, anylayer_command: Run, words: list[str], message: str
) -> None:
    assert message in anylayer_command("identify", "net.prototxt", *words, status=1).stderr


def test_dialect_error_proposes_a_command_line(folder: Path, anylayer_command: Run) -> None:
    Path("net.prototxt").write_text(NET[: NET.index('layer { name: "log"')])
    np.savez("out.npz", reorg=IN_ORDER_OF_ASCEND)
    message = anylayer_command("run", "net.prototxt", "-i", "in.npz", status=1).stderr
    line = message[message.index("anylayer identify") :].replace("[WEIGHTS] ", "")
    assert "fits: ascend" in anylayer_command(*shlex.split(line)[1:]).stdout
