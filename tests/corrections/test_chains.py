"""Chains of elementwise operators that need more registers than a processor has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.corrections.chains import cut
from anylayer.network import Array
from anylayer.testing import run_graph
from tests.corrections.harness import noise, run, traced

pytest.importorskip("openvino", reason="openvino is not installed")


def wide(x: Any, y: Any) -> Any:
    """Compute 48 values that are all read again after the last of them: more than AVX-512 has registers."""
    values = [np.maximum(x * np.float32(i % 7 - 3), y - np.float32(i)) for i in range(48)]
    result = values[0]
    for value in reversed(values):
        result = np.where(value > result, value - result, result * np.float32(0.5))
    return result


def test_openvino_computes_a_chain_with_many_values() -> None:
    x, y = noise(3, 5), noise(3, 5, seed=1)
    assert np.array_equal(run("openvino", wide, x, y)[0], wide(x, y))


@pytest.mark.parametrize("seed", range(6))
def test_openvino_computes_random_chains(seed: int) -> None:
    def chain(x: Any, y: Any) -> Any:
        random = np.random.default_rng(seed)
        values = [x, y]
        for _ in range(60):
            a, b = (values[i] for i in random.integers(max(0, len(values) - 20), len(values), 2))
            values.append(
                [np.minimum(a, b), np.maximum(a, -b), np.where(a > b, a, np.floor(b))][random.integers(3)]
            )
        result = values[-1]
        for value in values:
            result = np.where(result < value, result, value - np.float32(1))
        return result

    x, y = noise(4, 7), noise(4, 7, seed=1)
    assert np.array_equal(run("openvino", chain, x, y)[0], chain(x, y))


def test_openvino_computes_a_chain_with_open_sizes(tmp_path: Any) -> None:
    kind, path = ((2, 5), "float32"), tmp_path / "wide.onnx"
    anylayer.export(wide, kind, kind, path=path, shapes={"x": ("N", 5), "y": ("N", 5)})
    model = anylayer.read(tmp_path / "wide.onnx").compile("openvino")
    for count in (1, 4):
        x, y = noise(count, 5), noise(count, 5, seed=1)
        got = model({"x": x, "y": y})["output"]
        assert np.array_equal(got, wide(x, y))


@pytest.mark.parametrize("shapes", [None, {"x": ("N", 5), "y": ("N", 5)}], ids=["fixed", "open"])
def test_written_ir_has_no_chain_with_many_values(tmp_path: Any, shapes: Any) -> None:
    def one_kernel(x: Any, y: Any) -> Any:
        values = [np.tanh(x + np.float32(i)) for i in range(48)]
        result = values[0]
        for value in reversed(values):
            result = np.minimum(value, result) + result
        return result + y

    kind = ((2, 5), "float32")
    done = anylayer.export(one_kernel, kind, kind, path=tmp_path / "wide.xml", shapes=shapes)
    assert done.checks and all(c.ok for c in done.checks)


def test_written_ir_keeps_a_long_chain_with_few_values(tmp_path: Any) -> None:
    def long(x: Any) -> Any:
        branches = [np.tanh(x[:, i : i + 1]) * np.float32(2) for i in range(20)]  # a kernel each
        total = np.concatenate(branches, 1)
        for i in range(40):
            total = np.maximum(total * np.float32(i % 3 + 1), np.float32(-i)) - np.float32(1)
        return total

    anylayer.export(long, ((2, 20), "float32"), path=tmp_path / "long.xml")
    assert "ReverseSequence" not in (tmp_path / "long.xml").read_text()


@pytest.mark.parametrize("length", [1, 5])
def test_cut_graph_computes_the_same(length: int) -> None:
    def signed(x: Array, y: Array) -> Array:
        return np.copysign(np.maximum(x, y) * np.float32(-2), x) + y

    x = np.array([np.nan, -0.0, 0.0, -np.inf, 2.5], np.float32)
    graph = traced(signed, x, x)
    pieces = cut(graph, length)
    assert [o.op for o in pieces.ops].count("ReverseSequence") >= 2
    assert np.array_equal(run_graph(pieces, [x, x], "openvino")[0], signed(x, x), equal_nan=True)
