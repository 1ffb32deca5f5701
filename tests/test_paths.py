"""Paths that cannot be read or written raise one FileError each, which names the file and the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import anylayer
from anylayer.errors import FileError

from .hostile.networks import SMALL, layer

TEXT = SMALL + layer("ReLU")
LONG = "x" * 300


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(TEXT)


def unreadable(model: str, weights: str | None = None, **options: str) -> str:
    with pytest.raises(FileError) as caught:
        anylayer.read(model, weights, **options)
    return str(caught.value)


def unwritable(name: str) -> str:
    net = anylayer.read("net.prototxt")
    with pytest.raises(FileError) as caught:
        net.write(name)
    assert [p.name for p in Path().iterdir() if p.name.startswith(".")] == []
    return str(caught.value)


def test_read_refuses_too_long_name() -> None:
    assert unreadable(LONG) == f"{LONG}: cannot be read: File name too long"
    assert unreadable("net.prototxt", LONG) == f"{LONG}: cannot be read: File name too long"
    assert unreadable("net.prototxt", proto=LONG) == f"{LONG}: cannot be read: File name too long"


def test_read_refuses_name_no_file_can_have() -> None:
    assert unreadable("a\0.prototxt") == r"the name 'a\0.prototxt' holds a NUL character"
    assert unreadable("net.prototxt", "a\0") == r"the name 'a\0' holds a NUL character"
    assert unreadable("a\ud800.prototxt") == r"the name 'a\ud800.prototxt' is not UTF-8"


@pytest.mark.skipif(os.geteuid() == 0, reason="the user of the tests is root, who may read every file")
def test_read_refuses_file_without_permission() -> None:
    Path("net.prototxt").chmod(0)
    assert unreadable("net.prototxt") == "net.prototxt: cannot be read: Permission denied"


def test_read_names_file_of_failed_system_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: Path, *args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", denied)
    assert unreadable("net.prototxt") == "net.prototxt: cannot be read: Permission denied"


def test_write_takes_longest_name_of_a_file() -> None:
    name = "x" * 250 + ".onnx"
    anylayer.read("net.prototxt").write(name)
    assert Path(name).is_file()


def test_write_refuses_too_long_name() -> None:
    name = LONG + ".onnx"
    assert unwritable(name) == f"{name}: cannot be written: File name too long"


def test_write_refuses_parent_that_is_a_file() -> None:
    assert unwritable("net.prototxt/o.onnx") == (
        "net.prototxt/o.onnx: cannot be written: net.prototxt is not a folder"
    )
    assert unwritable("net.prototxt/deeper/o.onnx") == (
        "net.prototxt/deeper/o.onnx: cannot be written: net.prototxt is not a folder"
    )


def test_write_refuses_name_no_file_can_have() -> None:
    assert unwritable("a\0.onnx") == r"the name 'a\0.onnx' holds a NUL character"
    assert unwritable("a\udcff.onnx") == r"the name 'a\udcff.onnx' is not UTF-8"


FULL_DISK = """
import resource, signal, sys
import anylayer
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
net = anylayer.read("net.prototxt")
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
sys.dont_write_bytecode = True
try:
    net.write(sys.argv[1])
except anylayer.AnyLayerError as error:
    print(error)
"""
"""A program in which no file may have more than 100 bytes. It runs in a process of its own, because the limit
holds for pytest's files, too. Of a module's bytecode, Python would write 100 bytes, and fail with them later."""


@pytest.mark.parametrize("name", ["o.onnx", "o.xml", "o.prototxt"])
def test_write_refuses_full_disk(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, name], capture_output=True, text=True)
    assert done.stdout.startswith(f"{name}: cannot be written: ")
    assert [p.name for p in Path().iterdir()] == ["net.prototxt"]
