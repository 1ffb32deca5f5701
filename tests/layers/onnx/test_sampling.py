"""Operators that sample maps or scatter windows: files with open sizes match ONNX Runtime on the file itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import anylayer
from anylayer.errors import EngineError, LayerError
from tests.readers.onnx.files import model, value

node = helper.make_node
_rng = np.random.default_rng(0)
Sizes = Sequence[tuple[int, ...]]


def transformer(axes: int, **attributes: Any) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """Return the nodes of a spatial transformer of pictures (2 axes) or volumes (3 axes), and its constants."""
    warp = {name: attributes[name] for name in attributes if name == "align_corners"}
    nodes = [
        node("GlobalAveragePool", ["x"], ["pooled"]),
        node("Flatten", ["pooled"], ["flat"]),
        node("Gemm", ["flat", "w", "b"], ["numbers"]),
        node("Reshape", ["numbers", "matrix"], ["theta"]),
        node("Shape", ["x"], ["size"]),
        node("AffineGrid", ["theta", "size"], ["grid"], **warp),
        node("GridSample", ["x", "grid"], ["y"], **attributes),
    ]
    weights = np.float32(0.3) * _rng.standard_normal((3, axes * (axes + 1)), np.float32)
    bias = np.float32(1.2) * np.eye(axes, axes + 1, dtype=np.float32).reshape(-1)
    return nodes, {"w": weights, "b": bias, "matrix": np.array([-1, axes, axes + 1])}


def compare(
    tmp_path: Path,
    nodes: Any,
    constants: Any,
    shape: Sequence[Any],
    others: Sizes,
    suffix: str,
    stated: Sequence[int] | None = None,
) -> None:
    """Write the network with open sizes, and compare the file with its source at other sizes.

    stated: the sizes that the file states, near which it is traced and verified (default: `shape`).
    """
    source, read, path = tmp_path / "net.onnx", tmp_path / "stated.onnx", tmp_path / f"open{suffix}"
    for file, sizes in (source, shape), (read, stated or shape):
        onnx.save(model(nodes, [value("x", sizes)], ["y"], constants, opset=20), file)
    anylayer.read(read).write(path, shapes={"x": tuple(shape)})
    for sizes in others:
        x = _rng.standard_normal(sizes, np.float32)
        (want,) = ort.InferenceSession(source).run(None, {"x": x})
        if suffix == ".onnx":
            (got,) = ort.InferenceSession(path).run(None, {"x": x})
        else:
            openvino = pytest.importorskip("openvino")
            made = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
            got = made({"x": x})[0]
        np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
@pytest.mark.parametrize(
    "attributes", [{}, {"align_corners": 1, "padding_mode": "reflection"}], ids=["zeros", "reflection"]
)
def test_spatial_transformer_takes_pictures_of_any_size(
    tmp_path: Path, attributes: dict[str, Any], suffix: str
) -> None:
    compare(tmp_path, *transformer(2, **attributes), ("N", 3, "H", "W"), [(1, 3, 7, 9), (3, 3, 12, 5)], suffix)


@pytest.mark.breadth
@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_spatial_transformer_takes_volumes_of_any_size(tmp_path: Path, padding: str, suffix: str) -> None:
    parts = transformer(3, padding_mode=padding)
    others = [(1, 3, 4, 7, 9), (3, 3, 2, 12, 5)]
    compare(tmp_path, *parts, ("N", 3, "D", "H", "W"), others, suffix, stated=(2, 3, 8, 16, 24))


def test_deformable_convolution_takes_pictures_of_any_size(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w1"], ["offset"], pads=[1] * 4, strides=[2, 2]),
        node("DeformConv", ["x", "w", "offset"], ["y"], pads=[1] * 4, strides=[2, 2]),
    ]
    weights = {n: _rng.standard_normal(s, np.float32) / 3 for n, s in (("w1", (18, 3, 3, 3)), ("w", (4, 3, 3, 3)))}
    compare(tmp_path, nodes, weights, ("N", 3, "H", "W"), [(1, 3, 7, 9), (3, 3, 12, 5)], ".onnx")


REMEDY = ". Use engine 'onnxruntime'"


def test_openvino_refuses_deformable_convolution_by_name(tmp_path: Path) -> None:
    inputs = [value("x", (1, 1, 3, 3)), value("offset", (1, 8, 2, 2))]
    layer = node("DeformConv", ["x", "w", "offset"], ["y"], name="sample")
    path = tmp_path / "net.onnx"
    onnx.save(model([layer], inputs, ["y"], {"w": np.ones((1, 1, 2, 2), np.float32)}, opset=19), path)
    net, arrays = anylayer.read(path), [np.ones((1, 1, 3, 3), np.float32), np.zeros((1, 8, 2, 2), np.float32)]
    rule = "OpenVINO does not support operator 'DeformConv' (layer 'sample')"
    calls = [(lambda: net.write(tmp_path / "net.xml"), ""), (lambda: net.compile("openvino")(*arrays), REMEDY)]
    for refused, remedy in calls:
        with pytest.raises(EngineError, match=f"^[^\n]*{re.escape(rule + remedy)}$"):
            refused()
    assert list(tmp_path.iterdir()) == [path]


def test_columns_become_a_picture_of_any_size(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["values"]),
        node("Reshape", ["values", "flat"], ["columns"]),
        node("Shape", ["x"], ["size"], start=2),
        node("Col2Im", ["columns", "size", "block"], ["y"], pads=[1] * 4),
    ]
    constants = {"flat": np.array([0, 18, -1]), "block": np.array([3, 3])}
    weights = {"w": _rng.standard_normal((18, 3, 1, 1), np.float32)}
    shape, others = ("N", 3, "H", "W"), [(1, 3, 7, 9), (3, 3, 12, 5)]
    compare(tmp_path, nodes, {**constants, **weights}, shape, others, ".onnx")


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.float32])
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_extremum_over_axes_that_are_an_input_runs_on_engines(tmp_path: Path, op: str, dtype: Any) -> None:
    inputs = [value("x", (2, 3, 4), dtype), value("axes", (1,), np.int64)]
    path = tmp_path / "net.onnx"
    onnx.save(model([node(op, ["x", "axes"], ["y"])], inputs, ["y"], opset=20), path)
    x = _rng.integers(0, 2 if dtype is np.bool_ else 100, (2, 3, 4)).astype(dtype)
    made = anylayer.read(path).compile("onnxruntime")
    assert not made.host_calls
    got = made({"x": x, "axes": np.array([1])})["y"]
    np.testing.assert_array_equal(got, (x.max if op == "ReduceMax" else x.min)(axis=1, keepdims=True))
    assert got.dtype == dtype


def test_maximum_of_no_elements_over_axes_that_are_an_input(tmp_path: Path) -> None:
    inputs = [value("x", (2, 0, 4), np.bool_), value("axes", (1,), np.int64)]
    path = tmp_path / "net.onnx"
    onnx.save(model([node("ReduceMax", ["x", "axes"], ["y"])], inputs, ["y"], opset=20), path)
    made = anylayer.read(path).compile("onnxruntime")
    got = made({"x": np.zeros((2, 0, 4), np.bool_), "axes": np.array([1])})["y"]
    np.testing.assert_array_equal(got, np.zeros((2, 1, 4), np.bool_))


def test_affine_grid_refuses_corners_of_one_cell(tmp_path: Path) -> None:
    nodes, constants = transformer(2, align_corners=1)
    onnx.save(model(nodes, [value("x", (1, 3, 1, 4))], ["y"], constants, opset=20), tmp_path / "net.onnx")
    with pytest.raises(LayerError, match="programs differ in the point of an axis of size 1"):
        anylayer.read(tmp_path / "net.onnx").compile("numpy")(np.ones((1, 3, 1, 4), np.float32))
