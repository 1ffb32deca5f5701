"""Test the graphs that TensorRT gets. There is no GPU here, so ONNX Runtime computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.corrections import corrected
from anylayer.testing import assert_same, run_graph
from anylayer.tracing import record
from tests.corrections.harness import noise, traced

X = noise(1, 2, 5, 6)


@pytest.mark.parametrize(
    ("shape", "size", "options"),
    [
        ((1, 2, 5, 6), (8, 12), {"mode": "cubic"}),
        ((1, 2, 5, 6), (3, 3), {"mode": "linear", "antialias": True}),
        ((1, 2, 5, 6), (2, 3), {"mode": "nearest"}),  # the centers lie between two cells
        ((1, 2, 5, 6), (10, 8), {"mode": "nearest", "coordinates": "asymmetric", "nearest": "floor"}),
        ((2, 5, 6), (8, 12), {"mode": "linear"}),
    ],
)
def test_resizes_that_engines_compute_differently_are_spelled_out(
    shape: tuple[int, ...], size: tuple[int, ...], options: dict[str, Any]
) -> None:
    x = noise(*shape)
    graph = corrected(traced(lambda x: ops.resize(x, size, **options), x), "tensorrt").graph
    assert "Resize" not in [o.op for o in graph.ops]
    assert_same(run_graph(graph, [x], "onnxruntime")[0], ops.resize(x, size, **options), "y", 1e-5)


@pytest.mark.parametrize("options", [{"mode": "linear"}, {"mode": "nearest", "nearest": "round_prefer_floor"}])
def test_resizes_with_one_meaning_stay_whole(options: dict[str, Any]) -> None:
    graph = corrected(traced(lambda x: ops.resize(x, (10, 12), **options), X), "tensorrt").graph
    assert [o.op for o in graph.ops] == ["Resize"]


def test_scales_that_do_not_follow_from_the_sizes_stay_whole() -> None:
    scales = np.array([1, 1, 1.7, 1.7], np.float32)

    def resized(x: Any) -> Any:
        return record("Resize", [x, None, scales], (1, 2, 8, 10), np.float32, mode="cubic")

    assert "Resize" in [o.op for o in corrected(traced(resized, X), "tensorrt").graph.ops]
