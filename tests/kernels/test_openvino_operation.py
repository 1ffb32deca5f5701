"""OpenVINO's operation for native layers: compiled once, and left out where it cannot be compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("openvino", reason="openvino is not installed")

from anylayer.engines import _openvino_native, openvino
from anylayer.errors import FileError
from tests.kernels.test_contract import X, net_of, out
from tests.kernels.test_embedding import steps

COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo library > "$2"
"""


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_operation_is_compiled_for_each_openvino(monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[str] = []

    def record(source: str, compiler: list[str], given: list[str]) -> None:
        flags.append(" ".join(given))
        raise FileError("does not compile")

    monkeypatch.setattr(_openvino_native, "library", record)
    for version in ("2026.4", "2026.4", "2026.5"):
        monkeypatch.setattr(_openvino_native.ov, "__version__", version)
        assert not _openvino_native.has_operation.__wrapped__()
    assert flags[0] == flags[1] != flags[2]


def test_without_a_compiler_there_is_no_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/there/is/no/compiler")
    assert not _openvino_native.has_operation.__wrapped__()


def test_an_operation_that_does_not_compile_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "false")
    assert not _openvino_native.has_operation.__wrapped__()


def test_a_file_that_is_not_a_library_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "compiler"
    script.write_text(COMPILER)
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    assert not _openvino_native.has_operation.__wrapped__()


def test_without_the_operation_a_layer_is_a_step(
    tmp_path: Path, probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = net_of(tmp_path, "First", "", probe)
    monkeypatch.setattr(openvino, "has_operation", lambda: False)
    model = net.compile("openvino")
    assert steps(model) == 3
    assert (model(X)["outy0"] == out(net, engine="numpy")).all()
