"""Tests of lists. Lists in loops are tested in test_control.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError
from anylayer.testing import assert_same
from tests.engine_names import ALL
from tests.layers.tensorflow.recorded import rejects
from tests.readers.tensorflow.files import const, graph, node, placeholder

X = np.float32([[1, 2], [3, 4], [5, 6]])


def run(path: Path, engine: str, *nodes: bytes, **inputs: Any) -> Any:
    path = path / "graph.pb"
    places = [placeholder(k, *v.shape, dtype=v.dtype.name) for k, v in inputs.items()]
    path.write_bytes(graph(*places, *nodes))
    return anylayer.read(path).compile(engine)(inputs)["y"]


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize("shape", [[2], [-1], -1])
def test_elements_are_written_and_read(engine: str, shape: Any, tmp_path: Path) -> None:
    nodes = [
        const("shape", np.int32(shape)),
        const("count", np.int32(3)),
        const("two", np.int32(2)),
        node("list", "TensorListReserve", "shape", "count", element_dtype="float32"),
        node("first", "TensorListSetItem", "list", "two", "x", element_dtype="float32"),
        node("second", "TensorListSetItem", "first", "at", "x", element_dtype="float32"),
        node("y", "TensorListStack", "second", "shape", element_dtype="float32"),
    ]
    y = run(tmp_path, engine, *nodes, x=X[0], at=np.int32(1))
    assert_same(y, np.stack([0 * X[0], X[0], X[0]]))
    nodes[-1] = node("y", "TensorListGetItem", "second", "at", "shape", element_dtype="float32")
    assert_same(run(tmp_path, engine, *nodes, x=X[0], at=np.int32(0)), X[0])


@pytest.mark.parametrize("engine", ALL)
def test_array_is_a_list_of_its_slices(engine: str, tmp_path: Path) -> None:
    nodes = [
        const("shape", np.int32([2])),
        const("order", np.int32([2, 0])),
        node("list", "TensorListFromTensor", "x", "shape", element_dtype="float32"),
        node("y", "TensorListGather", "list", "order", "shape", element_dtype="float32"),
    ]
    assert_same(run(tmp_path, engine, *nodes, x=X), X[[2, 0]])
    nodes[-1] = node("y", "TensorListLength", "list")
    assert run(tmp_path, engine, *nodes, x=X) == 3


@pytest.mark.parametrize("engine", ALL)
def test_tensor_array_is_scattered_and_gathered(engine: str, tmp_path: Path) -> None:
    nodes = [
        const("size", np.int32(3)),
        const("order", np.int32([2, 0, 1])),
        node("list", "TensorArrayV3", "size", dtype="float32"),
        node("full", "TensorArrayScatterV3", "list", "order", "x", "list:1", T="float32"),
        node("y", "TensorArrayGatherV3", "list", "at", "full", dtype="float32"),
    ]
    assert_same(run(tmp_path, engine, *nodes, x=X, at=np.int32([0, 1])), X[[1, 2]])
    nodes[-1] = node("y", "TensorArraySizeV3", "list", "full")
    assert run(tmp_path, engine, *nodes, x=X) == 3


def test_index_outside_is_refused(tmp_path: Path) -> None:
    nodes = [
        const("shape", np.int32([2])),
        const("three", np.int32(3)),
        node("list", "TensorListFromTensor", "x", "shape", element_dtype="float32"),
        node("y", "TensorListGetItem", "list", "three", "shape", element_dtype="float32"),
    ]
    with pytest.raises(LayerError, match="index 3 is not within the list of 3 elements"):
        run(tmp_path, "numpy", *nodes, x=X)


test_rejects_list_of_any_length = rejects(
    "TensorListReserve",
    {"element_dtype": "float32"},
    np.int32([2]),
    np.int32(1 << 30),
    text="num_elements must lie in 0..1048576, got 1073741824",
)
test_rejects_element_of_other_shape = rejects(
    "TensorListSetItem",
    {},
    X,
    np.int32(0),
    np.zeros(3),
    text="the elements of the list are float32[2], got float32[3]",
)
