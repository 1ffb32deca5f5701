"""Resizes on ncnn: by its layer Interp where it computes as NumPy does, else by cells and weights."""

from __future__ import annotations

from typing import Any

import pytest

from anylayer import ops
from anylayer.corrections import corrected
from anylayer.errors import EngineError
from anylayer.testing import assert_same
from tests.corrections.harness import noise, run, traced

pytest.importorskip("ncnn", reason="ncnn is not installed")

X = (1, 3, 5, 6)
LAST = {"axes": (1, 2)}
REPEATED = {"mode": "nearest", "nearest": "round_prefer_floor"}

CASES = [
    (X, (8, 12), {}, True),
    (X, (8, 12), {"coordinates": "align_corners"}, True),
    (X, (8, 12), {"coordinates": "pytorch_half_pixel"}, True),
    (X, (8, 12), {"coordinates": "asymmetric"}, False),  # Interp knows two positions
    (X, (8, 1), {"coordinates": "pytorch_half_pixel"}, False),  # a single cell has another position
    (X, (10, 12), REPEATED, True),
    (X, (8, 12), {"mode": "cubic"}, False),
    (X, (3, 3), {"antialias": True}, False),
    ((1, 5, 6, 3), (8, 12), LAST, True),  # channels last
    ((1, 5, 6, 3), (10, 12), {**REPEATED, **LAST}, True),
    (X, (6, 8), {"axes": (1, 3)}, False),  # the channels are resized
    ((3, 5, 6), (8, 12), {}, False),
]


@pytest.mark.parametrize(("shape", "size", "options", "whole"), CASES)
def test_resize_matches_numpy(
    shape: tuple[int, ...], size: tuple[int, ...], options: dict[str, Any], whole: bool
) -> None:
    def resized(x: Any) -> Any:
        return ops.resize(x, size, **{"mode": "linear", **options})

    x = noise(*shape)
    used = [o.op for o in corrected(traced(resized, x), "ncnn").graph.ops]
    assert ("Resize" in used) == whole
    assert used.count("Transpose") == (2 if whole and shape[3:] == (3,) else 0)
    assert_same(run("ncnn", resized, x)[0], resized(x), "y", 1e-5)


def test_cells_that_are_not_repeated_equally_often_are_refused() -> None:
    with pytest.raises(
        EngineError, match="indices that neither are consecutive nor repeat each cell equally often"
    ):
        run("ncnn", lambda x: ops.resize(x, (7, 9), **REPEATED), noise(*X))
