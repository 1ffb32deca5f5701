"""record.py makes golden data as the tests read them. anylayer's own pycaffe stands for a Caffe here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import anylayer
from tests.threads import MAX_SECONDS

RECORD = Path(__file__).with_name("record.py")
NET = """
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 5 dim: 4 } } }
layer { name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param {
  num_output: 2 kernel_size: 3 weight_filler { type: "xavier" } } }
"""
ABORTING = """
import os, sys
print("F1124 layer.cpp:7] Check failed: group > 0", file=sys.stderr, flush=True)
os.abort()
"""


def run(folder: Path, caffe: str) -> tuple[dict[str, object], str]:
    """Return the description of a case of NET that a module `caffe` computes, and what is printed."""
    case = folder / "Convolution" / "plain"
    case.mkdir(parents=True)
    (case / "deploy.prototxt").write_text(NET)
    (folder / "caffe.py").write_text(caffe)
    words = [sys.executable, str(RECORD), "--dialect", "bvlc", str(case)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=MAX_SECONDS, check=True)
    return json.loads((case / "case.json").read_text()), done.stdout


def test_recorded_case_has_the_files_that_the_tests_read(tmp_path: Path) -> None:
    info, printed = run(tmp_path, "from anylayer.caffe import *\n")
    case = tmp_path / "Convolution" / "plain"
    assert printed == f"{case}: recorded\n"
    assert (info["layer"], info["case"], info["dialect"]) == ("Convolution", "plain", "bvlc")
    assert (info["inputs"], info["outputs"], info["weights"]) == (["x"], ["y"], True)
    net = anylayer.read(case / "deploy.prototxt", case / "weights.caffemodel", dialect="bvlc")
    x, want = np.load(case / "input_x.npy"), np.load(case / "output_y.npy")
    assert x.std() > 0.5 and want.std() > 0.1
    np.testing.assert_allclose(net.compile("numpy")(x)["y"], want, atol=1e-5)


def test_case_at_which_caffe_aborts_is_rejected(tmp_path: Path) -> None:
    info, printed = run(tmp_path, ABORTING)
    assert info["rejected"] == "F1124 layer.cpp:7] Check failed: group > 0"
    assert info["outputs"] == [] and ": rejected: " in printed
