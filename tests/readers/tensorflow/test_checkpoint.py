"""Checkpoints of TensorFlow 1 match what TensorFlow computed (tests/data/tensorflow/make_checkpoint.py)."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import FileError
from anylayer.readers._recognize import describe
from tests.engine_names import ALL

FOLDER = Path(__file__).parent.parent.parent / "data" / "tensorflow" / "checkpoint"


@pytest.mark.parametrize("engine", ALL)
def test_checkpoint_matches_tensorflow(engine: str) -> None:
    net = anylayer.read(FOLDER / "model.meta")
    assert list(net.outputs) == ["prob"]
    assert net.network.open == {"picture": (None, 6, 5, 3)}
    known = np.load(FOLDER / "output.npz")
    got = net.compile(engine)({"picture": known["picture"]})["prob"]
    np.testing.assert_allclose(got, known["prob"], atol=1e-5)


def test_missing_files_of_a_checkpoint_are_named(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "model.meta", tmp_path)
    assert describe(tmp_path / "model.meta") == "a TensorFlow checkpoint's graph"
    with pytest.raises(FileError, match=r"model\.meta: this is a TensorFlow checkpoint's graph; anylayer reads"):
        anylayer.read(tmp_path / "model.meta")
    (tmp_path / "model.index").write_bytes((FOLDER / "model.index").read_bytes()[:90])
    with pytest.raises(FileError, match=r"model\.meta: model\.index: "):
        anylayer.read(tmp_path / "model.meta")
    shutil.copy(FOLDER / "model.index", tmp_path)
    with pytest.raises(FileError, match=r"model\.data-00000-of-00001"):
        anylayer.read(tmp_path / "model.meta")


def test_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    for part in FOLDER.glob("model.*"):
        shutil.copy(part, tmp_path)
    data = (FOLDER / "model.meta").read_bytes()
    for size in range(0, len(data), 97):
        (tmp_path / "model.meta").write_bytes(data[:size])
        with pytest.raises(anylayer.AnyLayerError):
            anylayer.read(tmp_path / "model.meta").compile("numpy")
