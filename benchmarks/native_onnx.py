"""The operators as a user would write them by hand for ONNX: name -> forms. A form is (nodes, constants)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.operators import Operator

Node = tuple[str, list[str], str, dict[str, Any]]
Form = tuple[list[Node], dict[str, np.ndarray]]
OPSET = 18


def _stretch(size: int, to: int) -> np.ndarray:
    """Return the matrix (to, size) of linear interpolation with aligned corners."""
    place = np.arange(to) * (size - 1) / (to - 1)
    low = np.minimum(place.astype(int), size - 2)
    matrix = np.zeros((to, size), np.float32)
    matrix[np.arange(to), low] = 1 - (place - low)
    matrix[np.arange(to), low + 1] = place - low
    return matrix


def _interp(_: Operator) -> dict[str, Form]:
    m = _stretch(65, 129)
    sizes = np.array([1, 64, 129, 129], np.int64)
    aligned = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    empty = {"none": np.zeros(0, np.float32), "sizes": sizes}
    return {
        "two products": (
            [("MatMul", ["x", "across"], "wide", {}), ("MatMul", ["down", "wide"], "y", {})],
            {"across": np.ascontiguousarray(m.T), "down": m},
        ),
        "two products, rows first": (
            [("MatMul", ["down", "x"], "tall", {}), ("MatMul", ["tall", "across"], "y", {})],
            {"across": np.ascontiguousarray(m.T), "down": m},
        ),
        "Resize": ([("Resize", ["x", "none", "none", "sizes"], "y", aligned)], empty),
    }


def _upsample(_: Operator) -> dict[str, Form]:
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    scales = {"none": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    return {"Resize": ([("Resize", ["x", "none", "scales"], "y", how)], scales)}


def _normalize(operator: Operator) -> dict[str, Form]:
    scale = operator.weights[0].reshape(1, -1, 1, 1)
    channel = np.array([1], np.int64)
    end: list[Node] = [("Mul", ["x", "over"], "unit", {}), ("Mul", ["unit", "scale"], "y", {})]
    root: list[Node] = [
        ("Add", ["sum", "eps"], "sum_eps", {}),
        ("Sqrt", ["sum_eps"], "norm", {}),
        ("Reciprocal", ["norm"], "over", {}),
    ]
    tensors = {"axes": channel, "scale": scale, "eps": np.float32(1e-10)}
    ones = np.ones((1, scale.size, 1, 1), np.float32)
    return {
        "ReduceSumSquare": ([("ReduceSumSquare", ["x", "axes"], "sum", {}), *root, *end], tensors),
        "sum by convolution": (
            [("Mul", ["x", "x"], "square", {}), ("Conv", ["square", "ones"], "sum", {}), *root, *end],
            {**tensors, "ones": ones},
        ),
    }


def _space_to_depth(_: Operator) -> dict[str, Form]:
    return {"SpaceToDepth": ([("SpaceToDepth", ["x"], "y", {"blocksize": 2})], {})}


def _reorg(_: Operator) -> dict[str, Form]:
    before, after = np.array([1, 16, 52, 52], np.int64), np.array([1, 256, 13, 13], np.int64)
    nodes: list[Node] = [
        ("Reshape", ["x", "before"], "seen", {}),
        ("SpaceToDepth", ["seen"], "deep", {"blocksize": 2}),
        ("Reshape", ["deep", "after"], "y", {}),
    ]
    return {"SpaceToDepth": (nodes, {"before": before, "after": after})}


def _shuffle(_: Operator) -> dict[str, Form]:
    order = np.arange(240).reshape(3, 80).T.reshape(-1)
    five, four = np.array([1, 3, 80, 28, 28], np.int64), np.array([1, 240, 28, 28], np.int64)
    return {
        "Gather": ([("Gather", ["x", "order"], "y", {"axis": 1})], {"order": order}),
        "Transpose": (
            [
                ("Reshape", ["x", "five"], "a", {}),
                ("Transpose", ["a"], "b", {"perm": [0, 2, 1, 3, 4]}),
                ("Reshape", ["b", "four"], "y", {}),
            ],
            {"five": five, "four": four},
        ),
    }


def _permute(_: Operator) -> dict[str, Form]:
    return {"Transpose": ([("Transpose", ["x"], "y", {"perm": [0, 2, 3, 1]})], {})}


def _leaky(_: Operator) -> dict[str, Form]:
    return {"LeakyRelu": ([("LeakyRelu", ["x"], "y", {"alpha": 0.1})], {})}


def _grid(_: Operator) -> dict[str, Form]:
    how = {"mode": "linear", "padding_mode": "zeros", "align_corners": 0}
    return {"GridSample": ([("GridSample", ["x", "grid"], "y", {**how, "mode": "bilinear"})], {})}


def _unpool(_: Operator) -> dict[str, Form]:
    plane = (np.arange(64) * 128 * 128).reshape(1, 64, 1, 1)
    nodes: list[Node] = [
        ("Cast", ["mask"], "whole", {"to": TensorProto.INT64}),
        ("Add", ["whole", "plane"], "flat", {}),
        ("MaxUnpool", ["x", "flat"], "y", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ]
    return {"MaxUnpool": (nodes, {"plane": plane.astype(np.int64)})}


FORMS = {
    "interp": _interp,
    "upsample": _upsample,
    "normalize": _normalize,
    "space_to_depth": _space_to_depth,
    "reorg": _reorg,
    "shuffle": _shuffle,
    "permute": _permute,
    "leaky": _leaky,
    "gridsample": _grid,
    "maxunpool": _unpool,
}


def write(operator: Operator, output: Sequence[int], folder: Path) -> dict[str, str]:
    """Write the operator's forms as ONNX files. Return form -> path; empty if none is written here."""
    key = next((key for key in FORMS if operator.name.startswith(key)), None)
    if key is None:
        return {}
    paths = {}
    for number, (form, (nodes, constants)) in enumerate(FORMS[key](operator).items()):
        path = folder / f"by_hand_{number}.onnx"
        onnx.save(model(operator.name, operator.inputs(), nodes, constants, output), str(path))
        paths[f"by hand: {form}"] = str(path)
    return paths


def model(
    name: str,
    inputs: Mapping[str, np.ndarray],
    nodes: Sequence[Node],
    constants: Mapping[str, np.ndarray],
    output: Sequence[int],
) -> onnx.ModelProto:
    """Return an ONNX model of these nodes, whose output is y."""
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in inputs.items()]
    graph = helper.make_graph(
        [helper.make_node(op, read, [made], **attributes) for op, read, made, attributes in nodes],
        name,
        given,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(output))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
