"""No engine sends telemetry: each runs in a process of its own, with an empty home folder and under strace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from anylayer.engines import engines
from anylayer.kernels.compiler import COMPILERS

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "relu" type: "ReLU" bottom: "x" top: "y" }
"""

RUN = """
import sys
import numpy as np
import anylayer
model = anylayer.read(sys.argv[1]).compile(sys.argv[2])
model({"x": np.zeros((1, 4), np.float32)})
"""

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a user's process: not a CI job, where OpenVINO's telemetry is off by itself."""
    kept = {
        k: v for k, v in os.environ.items() if k not in ("CI", "TF_BUILD", "JENKINS_URL", "ORT_DISABLE_TELEMETRY")
    }
    return {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), **variables}


def traced(code: str, *arguments: str, home: Path, log: Path, **variables: str) -> list[str]:
    """Run Python code under strace; return its calls that open or use an internet socket."""
    home.mkdir()
    command = [
        "strace",
        "-f",
        "-qq",
        "-s",
        "80",
        "-e",
        "trace=%network",
        "-o",
        str(log),
        sys.executable,
        "-c",
        code,
    ]
    done = subprocess.run(
        [*command, *arguments], env=environment(home, **variables), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return [line for line in log.read_text().splitlines() if "AF_INET" in line]


@needs_strace
@pytest.mark.parametrize(
    "engine",
    ["auto", "numpy", *(pytest.param(e, marks=() if e == "cpp" else pytest.mark.needs(e)) for e in engines())],
)
def test_engine_opens_no_internet_socket_and_writes_nothing_at_home(engine: str, tmp_path: Path) -> None:
    if engine == "cpp" and not any(map(shutil.which, COMPILERS)):
        pytest.skip("there is no C++ compiler")
    model = tmp_path / "net.prototxt"
    model.write_text(NET)
    calls = traced(RUN, str(model), engine, home=tmp_path / "home", log=tmp_path / "log")
    assert calls == []
    kept = tmp_path / "home" / ".cache" / "anylayer" / "cpp"  # the libraries that engine cpp builds
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file() and path.parent != kept]
    assert files == [] and kept.exists() == (engine == "cpp")


@needs_strace
def test_strace_sees_an_internet_socket(tmp_path: Path) -> None:
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))"
    assert traced(code, home=tmp_path / "home", log=tmp_path / "log")


def test_users_choice_for_onnxruntime_is_kept() -> None:
    code = "import os, anylayer.libraries.onnxruntime; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    for variables, expected in (({}, "1"), ({"ORT_DISABLE_TELEMETRY": "0"}, "0")):
        run = [sys.executable, "-c", code]
        env = environment(Path(os.environ.get("HOME", "/")), **variables)
        assert subprocess.run(run, env=env, capture_output=True, text=True).stdout.strip() == expected


def test_users_consent_to_openvino_telemetry_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("openvino_telemetry", reason="openvino-telemetry is not installed")
    (tmp_path / "intel").mkdir()
    code = "import sys, anylayer.libraries.openvino; print('openvino_telemetry' in sys.modules)"
    for consent, expected in (("0", "False"), ("1", "True")):
        (tmp_path / "intel" / "openvino_telemetry").write_text(consent)
        run = [sys.executable, "-c", code]
        env = environment(tmp_path, CI="true")  # the package is loaded, and sends nothing from a CI job
        assert subprocess.run(run, env=env, capture_output=True, text=True).stdout.strip() == expected
