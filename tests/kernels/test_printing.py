"""Layers that print: runs that are only measured or checked print nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from anylayer.layer import Layer
from anylayer.libraries.stdout import drops_output, redirected_stdout
from anylayer.network import Array
from anylayer.runtime.batches import Batches
from tests.kernels.conftest import ROOT
from tests.kernels.test_contract import X, net_of

BY = ["by cout", "by log", "by printf"]


class Says(Layer):
    """A layer that prints a line for each call, and runs in Python, because it asks for a value."""

    def forward(self, x: Array) -> Array:
        if float(str(x.sum())) >= 0:
            print("by print")
        return x + 0


@pytest.mark.parametrize(
    "how", [[], ["--isolate"], ["-e", "onnxruntime"]], ids=["auto", "isolated", "onnxruntime"]
)
def test_a_run_prints_the_lines_of_one_call(tmp_path: Path, probe: Path, how: list[str]) -> None:
    source = net_of(tmp_path, "Prints", "", probe).network.source
    np.save(tmp_path / "x.npy", X)
    words = ["run", source, "-l", probe, "-i", tmp_path / "x.npy", *how]
    done = subprocess.run(
        [sys.executable, "-m", "anylayer", *map(str, words)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    native, other = (done.stdout, done.stderr) if how != ["--isolate"] else (done.stderr, done.stdout)
    assert sorted(line for line in native.splitlines() if line in BY) == ["by cout", "by printf"]
    assert not [line for line in other.splitlines() if line in BY]
    assert done.stderr.count("libprobe.so: by log\n") == 1
    assert "outy0" in done.stdout


def test_a_layer_in_python_prints_in_runs_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = net_of(tmp_path, "Says", "", None, 1, ("Says", Says))
    with pytest.warns(UserWarning, match="runs in Python"):
        model = net.compile("auto")
    assert len(model.timings) > 1
    assert capsys.readouterr().out == "by print\n"  # the call with zeros for the type of the output
    model(X)
    assert capsys.readouterr().out == "by print\n"
    assert Batches(model, {k: t for k, t in model.inputs.items() if t is not None}, 2).size
    assert capsys.readouterr().out == ""
    assert net.profile({"data": X}, seconds=0.01).costs
    assert capsys.readouterr().out == "by print\n"  # as above


def test_contexts_may_overlap(capfd: pytest.CaptureFixture[str]) -> None:
    a, b, c = redirected_stdout(drop=False), redirected_stdout(drop=True), redirected_stdout(drop=False)
    before = sys.stdout
    for context in (a, b, c):
        context.__enter__()
        print("out" if context is a else "dropped")
        os.write(1, b"err\n" if context is a else b"dropped\n")
    a.__exit__(None, None, None)
    assert drops_output()
    print("dropped")
    b.__exit__(None, None, None)
    os.write(1, b"err\n")
    c.__exit__(None, None, None)
    print("out")
    assert sys.stdout is before
    assert not drops_output()
    got = capfd.readouterr()
    assert (got.out, got.err) == ("out\nout\n", "err\nerr\n")
