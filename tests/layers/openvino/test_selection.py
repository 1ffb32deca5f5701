"""Tests of TopK and non-maximum suppression."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino import opset1 as o1
from openvino import opset9 as o9
from openvino import opset11 as o11

from .harness import const, matches, noise, refuses

RANDOM = np.random.default_rng(1)
LOW = RANDOM.random((2, 12, 2)).astype(np.float32)
BOXES = np.concatenate([LOW, LOW + RANDOM.random((2, 12, 2)).astype(np.float32) * np.float32(0.6)], -1)
SCORES = RANDOM.random((2, 3, 12)).astype(np.float32)
X = noise(1, 3, 8, 9)
F = np.float32
CASES = {
    f"topk {mode} {sort}": matches(
        lambda x, mode=mode, sort=sort: o11.topk(x, const(3), 2, mode, sort, "i64").outputs(), X
    )
    for mode in ("max", "min")
    for sort in ("value", "index")
}
CASES |= {
    f"nms {encoding} {descending}": matches(
        lambda b, s, e=encoding, d=descending: o9.non_max_suppression(
            b, s, const(4), const(0.4, F), const(0.3, F), const(0, F), e, d, "i32"
        ).outputs(),
        BOXES,
        SCORES,
    )
    for encoding in ("corner", "center")
    for descending in (True, False)
}
CASES["nms opset1"] = matches(
    lambda b, s: o1.non_max_suppression(b, s, const(4), const(0.4, F), const(0.3, F), "corner", True),
    BOXES,
    SCORES,
)
test_rejects_soft_nms = refuses(
    lambda b, s: o9.non_max_suppression(
        b, s, const(4), const(0.4, F), const(0.3, F), const(0.5, F), "corner", True, "i32"
    ).outputs(),
    BOXES,
    SCORES,
    text="soft_nms_sigma other than 0 is not supported",
)


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)


def counted(b: object, s: object) -> object:
    """Return the number of boxes that are kept, from the shape of the result."""
    nms = o9.non_max_suppression(b, s, const(4), const(0.4, F), const(0.3, F), const(0, F), "corner", True, "i32")
    return o9.shape_of(nms.outputs()[0])


CASES["shape of the kept boxes"] = matches(counted, BOXES, SCORES)
