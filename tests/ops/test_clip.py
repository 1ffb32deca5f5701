"""Values within limits."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.testing import check_function


def test_limits_are_those_of_caffes_max_and_min() -> None:
    x = np.float32([np.nan, -3, 0.25, 9])
    assert ops.clip(x, -1, 2).tolist() == [-1, -1, 0.25, 2]
    assert ops.clip(x, 0.5, -0.5).tolist() == [0.5] * 4
    assert ops.clip(x, -1, 2).dtype == np.float32


def test_trace_is_one_operator_that_matches_numpy() -> None:
    x = np.float32([[-3, -1, 0.5], [2, 9, 0]])
    graph = check_function(lambda x: ops.clip(x, -1, 2), x, engines=["onnxruntime"])
    assert [op.op for op in graph.ops] == ["Clip"]
