"""What OpenCV 5 still has is the same in anylayer.opencv: blobs of images, and non-maximum suppression."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer.opencv as dnn
from tests.opencv import programs
from tests.opencv.test_opencv4 import assert_same

cv2 = pytest.importorskip("cv2", reason="cv2 is not installed")


@pytest.fixture
def without_ipp() -> Iterator[None]:
    """Let OpenCV use its own arithmetic for float images, not that of Intel's IPP."""
    before = cv2.ipp.useIPP()
    cv2.ipp.setUseIPP(False)
    yield
    cv2.ipp.setUseIPP(before)


@pytest.mark.parametrize(
    "program", [programs.images, programs.boxes_kept, programs.values], ids=lambda program: program.__name__
)
def test_answers_match_opencv5(tmp_path: Path, program: Callable[[Any, Path], dict[str, Any]]) -> None:
    theirs = types.SimpleNamespace(**vars(cv2.dnn), error=cv2.error)
    assert_same(program(dnn, tmp_path), program(theirs, tmp_path), program.__name__, exact=True)


@pytest.mark.parametrize("seed", range(60))
def test_blobs_of_bytes_are_equal_to_the_last_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    height, width, target_height, target_width = (int(n) for n in rng.integers(1, 70, 4))
    if seed % 4 == 0:
        height, width = 2 * target_height + int(rng.integers(0, 3)), 2 * target_width + int(rng.integers(0, 3))
    image = programs.picture(height, width, (1, 3, 4)[seed % 3], seed)
    arguments = {"size": (target_width, target_height), "mean": (10.5, 20.25, 30), "crop": bool(seed % 2)}
    want = cv2.dnn.blobFromImage(image, 0.017, swapRB=bool(seed % 5), **arguments)
    got = dnn.blobFromImage(image, 0.017, swapRB=bool(seed % 5), **arguments)
    assert got.dtype == want.dtype and np.array_equal(got, want)


@pytest.mark.usefixtures("without_ipp")
@pytest.mark.parametrize("seed", range(12))
def test_blobs_of_floats_are_equal_to_the_last_bit_without_ipp(seed: int) -> None:
    rng = np.random.default_rng(seed)
    image = rng.standard_normal((*map(int, rng.integers(2, 60, 2)), 3)).astype(np.float32)
    size = tuple(map(int, rng.integers(2, 60, 2)))
    crop = bool(seed % 2)
    assert np.array_equal(
        dnn.blobFromImage(image, size=size, crop=crop), cv2.dnn.blobFromImage(image, size=size, crop=crop)
    )


@pytest.mark.usefixtures("without_ipp")
@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
@pytest.mark.parametrize("seed", range(12))
def test_blobs_of_16_bits_are_equal_to_the_last_bit_without_ipp(seed: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    height, width = map(int, rng.integers(2, 60, 2))
    target = (width, height) if seed % 3 == 0 else tuple(map(int, rng.integers(2, 60, 2)))
    shape = (2 * height, 2 * width, 3) if seed % 3 == 0 else (height, width, 3)
    ends = np.iinfo(dtype)
    image = rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    crop = bool(seed % 2)
    want = cv2.dnn.blobFromImage(image, 0.5, target, (1, 2, 3), crop=crop)
    assert np.array_equal(dnn.blobFromImage(image, 0.5, target, (1, 2, 3), crop=crop), want)


def test_blobs_of_floats_are_near_those_of_ipp() -> None:
    image = np.random.default_rng(0).standard_normal((33, 47, 3)).astype(np.float32)
    want = cv2.dnn.blobFromImage(image, size=(20, 30))
    np.testing.assert_allclose(dnn.blobFromImage(image, size=(20, 30)), want, rtol=0, atol=1e-4)


def test_constants_are_opencvs() -> None:
    ours = {name: value for name, value in vars(dnn.constants).items() if name.startswith(("DNN_", "CV_", "S"))}
    theirs = {**vars(cv2), **vars(cv2.dnn)}
    assert len(ours) > 30
    assert {name for name in ours if name not in theirs} <= {"DNN_BACKEND_HALIDE"}  # OpenCV 5 has dropped it
    assert {name: theirs[name] for name in ours if name in theirs} == {
        n: v for n, v in ours.items() if n in theirs
    }
