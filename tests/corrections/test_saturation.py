"""Sums of products of bytes are exact, on processors without VNNI instructions, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node as node

import anylayer
from anylayer.network import Array
from tests.engine_names import EVERY
from tests.readers.onnx.files import model, save, value

RANDOM = np.random.default_rng(5)
DTYPES = (np.uint8, np.int8)


def extreme(dtype: Any, *shape: int) -> Any:
    """Return numbers of a dtype of 8 bits, most of them near its limits."""
    limits = np.iinfo(dtype)
    return RANDOM.choice([limits.min, limits.max, limits.max - 1], shape, p=[0.2, 0.6, 0.2]).astype(dtype)


def convolved(x: Array, w: Array) -> Array:
    """Return a convolution with a 3 x 3 window, in float64, in which these sums are exact."""
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("second", DTYPES)
@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
def test_sums_of_integers_are_exact(op: str, first: Any, second: Any, constant: bool, tmp_path: Path) -> None:
    is_conv = op == "ConvInteger"
    a = extreme(first, 1, 4, 6, 5) if is_conv else extreme(first, 3, 40)
    b = extreme(second, 2, 4, 3, 3) if is_conv else extreme(second, 40, 5)
    zeros = [np.array(first(3)), np.array(second(7))]
    wide = a.astype(np.float64) - 3, b.astype(np.float64) - 7
    want = convolved(*wide) if is_conv else wide[0] @ wide[1]
    feed = {"a": a} if constant else {"a": a, "b": b}
    held = {"x": zeros[0], "z": zeros[1], **({"b": b} if constant else {})}
    inputs = [value(name, list(x.shape), x.dtype) for name, x in feed.items()]
    path = save(model([node(op, ["a", "b", "x", "z"], ["y"])], inputs, ["y"], held), str(tmp_path / "net.onnx"))
    got = anylayer.read(path).compile("onnxruntime", threads=1)(feed)["y"]
    assert np.array_equal(got, want)


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("second", DTYPES)
@pytest.mark.parametrize("op", ["MatMul", "Conv"])
def test_sums_of_dequantized_bytes_are_exact(
    op: str, second: Any, constant: bool, engine: str, tmp_path: Path
) -> None:
    is_conv = op == "Conv"
    a = RANDOM.choice([0, 255], (1, 4, 6, 5) if is_conv else (3, 40), p=[0.1, 0.9]).astype(np.float32)
    b = extreme(second, 2, 4, 3, 3) if is_conv else extreme(second, 40, 5)
    one, zero, other = np.float32(1), np.uint8(0), second(5)
    exact = a.astype(np.float64), b.astype(np.float64) - 5
    total = convolved(*exact) if is_conv else exact[0] @ exact[1]
    step = np.float32(2 ** np.ceil(np.log2(np.abs(total).max() / 120)))
    want = np.clip(np.rint(total / step) + 128, 0, 255)
    nodes = [
        node("QuantizeLinear", ["a", "one", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "one", "zero"], ["d"]),
        node("DequantizeLinear", ["b", "one", "other"], ["w"]),
        node(op, ["d", "w"], ["c"]),
        node("QuantizeLinear", ["c", "step", "middle"], ["y"]),
    ]
    held = {"one": one, "zero": zero, "other": other, "step": step, "middle": np.uint8(128)}
    feed = {"a": a} if constant else {"a": a, "b": b}
    inputs = [value(name, list(x.shape), x.dtype) for name, x in feed.items()]
    held = {n: np.asarray(x) for n, x in {**held, **({"b": b} if constant else {})}.items()}
    path = save(model(nodes, inputs, ["y"], held), str(tmp_path / "net.onnx"))
    got = anylayer.read(path).compile(engine, threads=1)(feed)["y"]
    assert np.array_equal(got, want)
