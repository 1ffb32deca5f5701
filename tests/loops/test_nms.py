"""NMS in generated code, against `ops.nms`: ties, NaN, boxes without area, and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.errors import LayerError
from anylayer.loops import lower, to_cpp
from anylayer.network import Array
from anylayer.tracing import record
from tests.loops.harness import build, call, needs_compiler, traced

LIMITS: list[dict[str, Any]] = [
    {"max_per_class": 4, "iou_threshold": 0.3, "score_threshold": 0.4},
    {"max_per_class": 99, "iou_threshold": 0.0},
    {"max_per_class": 30, "iou_threshold": 0.5, "score_threshold": 0.0},
    {"max_per_class": 7, "iou_threshold": 1.0, "score_threshold": 0.2},
    {"max_per_class": 30, "iou_threshold": 0.5, "score_threshold": 2.0},
]


def boxes_and_scores() -> Array:
    """Return 2 images of 30 columns: 4 rows of corners, 3 rows of scores. Some scores are equal, and some NaN."""
    random = np.random.default_rng(0)
    x = random.random((2, 7, 30)).astype(np.float32)
    x[:, 4:] = np.round(x[:, 4:] * 4) / 4
    x[0, 5, [3, 8]] = np.nan
    x[1, 2:4, 5:9] = x[1, :2, 5:9]
    return x


@needs_compiler
def test_nms_matches_numpy(tmp_path: Path) -> None:
    def functions(limits: dict[str, Any]) -> Any:
        return lambda x: list(ops.nms(x[:, :4].transpose(0, 2, 1), x[:, 4:], **limits))

    x = boxes_and_scores()
    codes = [to_cpp(lower(traced(functions(limits), x)), f"f{i}") for i, limits in enumerate(LIMITS)]
    library = build(codes, tmp_path)
    for code, limits in zip(codes, LIMITS):
        want = functions(limits)(x)
        got = call(library, code, [x], {}) or []
        for a, b in zip(got, want):
            np.testing.assert_array_equal(a, b, err_msg=str(limits))


def test_unpadded_nms_is_refused_by_name() -> None:
    def raw(x: Array) -> Any:
        limits = [np.array([3]), np.array([0.5], np.float32)]
        found = record(
            "NonMaxSuppression", [x[:, :4].transpose(0, 2, 1), x[:, 4:], *limits], ("kept", 3), np.int64
        )
        return record("ReduceMax", [found, np.array([0])], (1, 3), np.int64)

    with pytest.raises(LayerError, match=r"operator NonMaxSuppression at .*test_nms.py:\d+ cannot become loops"):
        lower(traced(raw, boxes_and_scores()))
