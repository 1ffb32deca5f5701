"""Tests of matrix products, attention and Einstein sums."""

from __future__ import annotations

from pathlib import Path

import pytest
from openvino import opset13 as o13
from openvino import opset15 as o15

from .harness import const, matches, noise

CASES = {
    "matmul": matches(lambda a, b: o15.matmul(a, b, True, False), noise(2, 5, 3), noise(2, 5, 4)),
    "matmul by a constant": matches(lambda a: o15.matmul(a, const(noise(7, 4)), False, True), noise(2, 4)),
    "matmul by a row": matches(lambda a, b: o15.matmul(a, b, True, True), noise(4), noise(2, 3, 4)),
    "einsum": matches(lambda a, b: o15.einsum([a, b], "bij,bkj->bik"), noise(2, 5, 3), noise(2, 4, 3)),
    "attention": matches(
        lambda q, k, v: o13.scaled_dot_product_attention(q, k, v), *(noise(1, 2, 4, 8, seed=i) for i in range(3))
    ),
    "causal attention": matches(
        lambda q, k, v: o13.scaled_dot_product_attention(q, k, v, causal=True),
        *(noise(1, 2, 4, 8, seed=i) for i in range(3)),
    ),
    "masked attention": matches(
        lambda q, k, v, m: o13.scaled_dot_product_attention(q, k, v, m),
        *(noise(1, 2, 4, 8, seed=i) for i in range(3)),
        noise(4, 4),
    ),
}


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
