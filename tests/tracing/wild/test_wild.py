"""Code as public repositories have it, compared with NumPy where a part, nothing and everything is selected."""

from __future__ import annotations

import numpy as np
import pytest

from anylayer.errors import AnyLayerError
from anylayer.testing import run_graph

from .case import SHARES, Case, all_cases


@pytest.mark.parametrize("case", all_cases(), ids=lambda c: f"{c.kind}-{c.name}")
def test_a_function_equals_numpy(case: Case) -> None:
    """A function with a reason must fail with it: if it is traced, take the reason out."""
    if case.reason:
        with pytest.raises(AnyLayerError, match=case.reason):
            case.traced()
        return
    graph = case.traced()
    for seed in range(len(SHARES)):
        arrays = case.given(seed)
        for got, want in zip(run_graph(graph, arrays, "onnxruntime"), case.want(arrays), strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=case.tolerance, atol=case.tolerance)
