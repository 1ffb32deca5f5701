"""ops.pad_to_maximum."""

from __future__ import annotations

import numpy as np
import pytest

from anylayer import ops
from anylayer.errors import AnyLayerError
from anylayer.graph import Dim
from anylayer.network import TensorType
from anylayer.testing import run_graph
from anylayer.tracing import trace
from tests.engine_names import GENERAL

X = np.arange(24, dtype=np.float32).reshape(2, 4, 3)


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize(("axis", "factor"), [(0, 1), (1, 2), (-1, 3)])
def test_dynamic_size_is_padded_to_its_maximum(engine: str, axis: int, factor: int) -> None:
    rows = Dim("rows", 5) * factor
    shape = [rows if i == axis % 3 else d for i, d in enumerate(X.shape)]
    graph = trace(
        lambda xs: [ops.pad_to_maximum(xs[0], -7, axis=axis)], [TensorType(tuple(shape), np.dtype("f4"))]
    )
    (got,) = run_graph(graph, [X], engine)
    widths = [(0, 5 * factor - X.shape[i] if i == axis % 3 else 0) for i in range(3)]
    assert graph.outputs[0].shape == got.shape
    np.testing.assert_array_equal(got, np.pad(X, widths, constant_values=-7))


def test_static_size_is_unchanged() -> None:
    assert ops.pad_to_maximum(X, 0) is X
    graph = trace(lambda xs: [ops.pad_to_maximum(xs[0], 0) + 1], [TensorType.of((2, 3))])
    assert [o.op for o in graph.ops] == ["Add"]


def test_axis_out_of_range_is_refused() -> None:
    with pytest.raises(AnyLayerError, match=r"axis must lie in -3\.\.2 for 3 axes, got 3"):
        ops.pad_to_maximum(X, 0, axis=3)
