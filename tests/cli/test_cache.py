"""anylayer cache shows what the cache folder holds, and deletes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anylayer.compile.segments import EnginePart
from anylayer.runtime.kept import Choice, keep_choice


@pytest.fixture
def choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache folder with two choices."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    times = {"onnxruntime": 2.5e-3, "openvino": 3e-3}
    keep_choice("a", Choice("net.prototxt", "data float32[1, 3]", "onnxruntime", [], [], times))
    parts = [EnginePart("ncnn", (0,)), EnginePart("openvino", (1,))]
    keep_choice(
        "b", Choice("ssd.onnx", "x float32[1]", "openvino", parts, parts, {**times, "ncnn+openvino": 1e-3})
    )
    return tmp_path / "anylayer"


def test_choices_are_shown(anylayer_command, choices):
    shown = anylayer_command("cache").stdout
    assert "net.prototxt  data float32[1, 3]  onnxruntime    onnxruntime 2.5 ms, openvino 3 ms" in shown
    assert "ncnn+openvino 1 ms, onnxruntime 2.5 ms" in shown
    assert shown.splitlines()[-1] == "2 choices of engine auto, 0 compiled kernels"


def test_choices_as_json(anylayer_command, choices):
    data = json.loads(anylayer_command("cache", "--json").stdout)
    assert {(c["network"], c["runs_on"]) for c in data["choices"]} == {
        ("net.prototxt", "onnxruntime"),
        ("ssd.onnx", "ncnn+openvino"),
    }
    assert data["kernels"] == []


def test_all_is_deleted_when_asked(anylayer_command, choices):
    (choices / "cpp").mkdir(mode=0o700)
    (choices / "cpp" / "KEY-HASH.so").write_bytes(b"")
    (choices / "choices" / "damaged.json").write_bytes(b"{")
    assert anylayer_command("cache", "--drop").stderr == "deleted 3 choices and 1 compiled kernel\n"
    assert [path for path in choices.rglob("*") if path.is_file()] == []
