"""Rewrites of normalizations."""

from __future__ import annotations

import pytest

from anylayer import ops

from .rewriting import check, noise, rewritten


@pytest.mark.parametrize("beta", [0.75, 0.5])
@pytest.mark.parametrize("size", [1, 3, 5, 9])
@pytest.mark.parametrize("bias", [1.0, 2.0])
def test_lrn_becomes_convolution_on_onnx_runtime(size: int, beta: float, bias: float) -> None:
    def function(x):
        return ops.lrn(x, size, alpha=0.3, beta=beta, bias=bias)

    x = noise(2, 6, 4, 3)
    check(function, x)
    check(function, x, exact=True)
    assert "LRN" not in rewritten(function, x, engine="onnxruntime")
    assert rewritten(function, x, engine="openvino") == ["LRN"]
    assert rewritten(function, x, engine="onnxruntime", exact=True) == ["LRN"]


@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("bias", [1.5, 0.5, 1.0, -1.0])
def test_lrn_of_any_bias_and_rank(size: int, bias: float) -> None:
    def function(x):
        return ops.lrn(x, size, alpha=0.3, beta=2.0, bias=bias)

    for shape in [(2, 6), (1, 6, 5), (2, 6, 4, 3)]:
        check(function, noise(*shape) + 3)


def test_lrn_of_many_channels_stays() -> None:
    assert rewritten(lambda x: ops.lrn(x, 5), noise(1, 600, 1, 2), engine="onnxruntime") == ["LRN"]
