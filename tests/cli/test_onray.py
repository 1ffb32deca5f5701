"""`anylayer run --ray`: options that do not fit, without Ray, and results, with it."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import anylayer


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--ray", "-i", "x.npy", "x.npy"], "with --ray, give one folder for the results: -o FOLDER"),
        (["-i", "x.npy", "--ray", "-o", "a.png"], "with --ray, give one folder for the results: -o FOLDER"),
        (["-i", "[1, 2]", "--ray", "-o", "out/"], "with --ray, each run has one file, for one input"),
        (["-i", "x.npy", "--ray", "-o", "out/", "--json"], "--json cannot be used with --ray"),
    ],
)
def test_options_that_do_not_fit_are_refused(small, anylayer_command, words: list[str], text: str) -> None:
    pytest.importorskip("ray", reason="ray[data] is not installed")
    found = anylayer_command("run", "net.prototxt", "-l", "layers.py", *words, status=1)
    assert text in found.stderr


def test_missing_ray_is_named(small, anylayer_command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in [n for n in sys.modules if n.startswith(("anylayer.ray", "anylayer.libraries.ray"))]:
        monkeypatch.delitem(sys.modules, name)
    words = ["run", "net.prototxt", "-l", "layers.py", "-i", "x.npy", "--ray", "-o", "out/"]
    assert anylayer_command(*words, status=1).stderr == "--ray needs: pip install 'ray[serve,data]'\n"
    with pytest.raises(ImportError, match=r"ray.*: pip install 'ray\[serve,data\]'"):
        importlib.import_module("anylayer.ray")


def test_results_are_those_of_run(small: Path, anylayer_command) -> None:
    pytest.importorskip("ray", reason="ray[data] is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    (small / "bad.npy").write_bytes(b"bad")
    words = ["run", "net.prototxt", "-l", "layers.py", "-e", "numpy"]
    threads = str((os.cpu_count() or 1) + 1)  # the cluster that is started has so many cores
    more = ["--ray", "-i", "x.npy", "picture.png", "bad.npy", "-o", "out/", "--threads", threads]
    environment = {**os.environ, "PYTHONPATH": str(Path(anylayer.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "anylayer", *words, *more], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "failed: " in done.stderr and "this is not an .npy file" in done.stderr
    assert "wrote the results of 2 files to out" in done.stderr
    found = {}
    for part in Path("out").glob("*.parquet"):
        found |= {Path(row["path"]).name: row for row in parquet.read_table(part).to_pylist()}
    assert sorted(found) == ["picture.png", "x.npy"]
    for file in ("x.npy", "picture.png"):
        anylayer_command(*words, "-i", file, "-o", "one.npz", "-q")
        for name, array in np.load("one.npz").items():
            assert found[file][f"{name}.shape"] == list(array.shape)
            np.testing.assert_allclose(found[file][name], array.ravel(), rtol=1e-6)


WAITING = '''import time
from pathlib import Path

import anylayer


@anylayer.layer("Waiting")
class Waiting:
    """Wait for the file `gate` if the input is large."""

    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
        while inputs[0].max() > 100 and not Path(GATE).exists():
            time.sleep(0.01)
        return [inputs[0] + 1]
'''
WAITING_NET = """input: "data" input_shape { dim: 1 dim: 2 }
layer { name: "waiting" type: "Waiting" bottom: "data" top: "out" }
"""


@pytest.mark.breadth
@pytest.mark.skipif(os.name != "posix", reason="the system is not Linux")
@pytest.mark.parametrize("opened", ["after the kill", "before the next run"])
def test_run_whose_driver_is_killed_resumes(
    opened: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Processes that compute when the driver is killed end, so that nothing is lost or written twice."""
    pytest.importorskip("ray", reason="ray[data] is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    monkeypatch.chdir(tmp_path)
    gate, out = tmp_path / "gate", tmp_path / "out"
    Path("layers.py").write_text(WAITING.replace("GATE", repr(str(gate))))
    Path("net.prototxt").write_text(WAITING_NET)
    Path("in").mkdir()
    for i in range(100):
        np.save(f"in/{i:03}.npy", np.full((1, 2), 200 * (i >= 60) + i, np.float32))
    words = ["run", "net.prototxt", "-l", "layers.py", "-i", "in", "--ray", "-o", "out/", "-e", "numpy"]
    environment = {**os.environ, "PYTHONPATH": str(Path(anylayer.__file__).parents[1])}
    command = [sys.executable, "-m", "anylayer", *words]
    first = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
    request.addfinalizer(first.kill)
    while not any(out.glob("*.parquet")):  # the files from 60 on wait
        assert first.poll() is None
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    if opened == "after the kill":
        gate.touch()
    first.wait()
    gate.touch()
    again = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert again.returncode == 0 and "had results already" in again.stderr, again.stderr
    rows = [row for part in out.glob("*.parquet") for row in parquet.read_table(part).to_pylist()]
    assert Counter(Path(row["path"]).stem for row in rows) == {f"{i:03}": 1 for i in range(100)}
    for row in rows:
        number = int(Path(row["path"]).stem)
        assert row["out"] == [200 * (number >= 60) + number + 1] * 2
