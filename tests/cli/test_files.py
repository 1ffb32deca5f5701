"""Files are written atomically, and read without trusting their headers."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from anylayer import AnyLayerError
from anylayer.cli.arrays import read_npy, read_npz
from anylayer.cli.files import to_json, write_arrays
from anylayer.errors import FileError
from anylayer.libraries.whole import whole_path, write_whole
from anylayer.network import Flag

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_suffix_determines_array_format(tmp_path):
    write_arrays(tmp_path / "a.npy", {"x": X})
    write_arrays(tmp_path / "deep" / "a.npz", {"file": X, "conv1/3x3": X + 1})
    write_arrays(tmp_path / "a.json", {"x": X})
    assert_array_equal(np.load(tmp_path / "a.npy"), X)
    loaded = np.load(tmp_path / "deep" / "a.npz")
    assert_array_equal(loaded["file"], X)
    assert_array_equal(read_npz(tmp_path / "deep" / "a.npz")["conv1/3x3"], X + 1)
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": [[0, 1, 2], [3, 4, 5]]}


def test_npy_with_two_arrays_is_refused(tmp_path):
    with pytest.raises(AnyLayerError, match="holds one array, but there are 2: x, y"):
        write_arrays(tmp_path / "a.npy", {"x": X, "y": X})


def test_failed_write_keeps_old_file(tmp_path):
    (tmp_path / "a").write_bytes(b"old")

    def fill(file):
        file.write(b"half")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_whole(tmp_path / "a", fill)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_pipes_and_devices_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AnyLayerError, match="pipe is a device or a pipe; the output must be a file"):
        write_whole(tmp_path / "pipe", lambda file: file.write(b"new"))
    with pytest.raises(AnyLayerError, match="must be a file"), whole_path(tmp_path / "pipe") as path:
        path.write_bytes(b"new")
    assert (tmp_path / "pipe").is_fifo()


def test_folder_is_not_overwritten(tmp_path):
    with pytest.raises(AnyLayerError, match="is a folder; the output must be a file"):
        write_whole(tmp_path, lambda file: None)


def test_json_of_nan_and_infinity():
    value = {"a": np.float32(0.5), 1: (float("nan"), float("inf"), -float("inf")), "n": np.arange(2), "é": Flag(1)}
    text = to_json(value)
    assert text == '{"a": 0.5, "1": ["NaN", "Infinity", "-Infinity"], "n": [0, 1], "é": true}'


def _claims(shape: str) -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(24)


@pytest.mark.parametrize("data", [b"", b"text", _claims("(100000, 100000)"), _claims("(-1,)"), _claims("(2,")])
def test_npy_with_too_large_claim_is_refused(tmp_path, data):
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(AnyLayerError, match=r"a\.npy: this is not an \.npy file: "):
        read_npy(tmp_path / "a.npy")


def test_npy_of_objects_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(AnyLayerError, match=r"a\.npy: the array holds Python objects, which are not read"):
        read_npy(tmp_path / "a.npy")


@pytest.mark.parametrize("shape", ["(100000, 100000)", "(2,"])
def test_npz_entry_with_too_large_claim_is_refused(tmp_path, shape):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", _claims(shape))
    with pytest.raises(AnyLayerError, match=r"a\.npz: "):
        read_npz(tmp_path / "a.npz")


def test_file_that_is_not_npz_is_refused(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"text")
    with pytest.raises(AnyLayerError, match=r"a\.npz: this is not an \.npz file: File is not a zip file"):
        read_npz(tmp_path / "a.npz")
    with pytest.raises(AnyLayerError, match="there is no such file"):
        read_npz(tmp_path / "b.npz")


def test_output_that_cannot_be_created_is_named_without_its_temporary_name() -> None:
    path = Path("/proc/new.txt")
    for write in (lambda: write_whole(path, lambda file: None), lambda: whole_path(path).__enter__()):
        with pytest.raises(FileError, match=r"^/proc/new\.txt: cannot be written: "):
            write()
