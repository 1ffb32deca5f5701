"""Loops of ONNX files, in OpenVINO. NumPy's loops over the steps are the expected values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import anylayer

pytest.importorskip("openvino", reason="openvino is not installed")

VIEWS = {
    "scalar": ((), "Identity", [], {}),
    "reshape": ((1, 3), "Reshape", [[3]], {}),
    "squeeze": ((1, 3), "Squeeze", [[0]], {}),
    "transpose": ((3, 1), "Transpose", [], {"perm": [1, 0]}),
    "gather": ((2, 3), "Gather", [1], {"axis": 0}),
    "slice": ((2, 3), "Slice", [[0], [1], [0]], {}),
}
"""The shape of the value that the body captures, and the operator that it applies: other inputs, attributes."""
OPERATORS = {
    "Add": np.add,
    "Mul": np.multiply,
    "Sub": np.subtract,
    "Pow": np.power,
    "Softmax": lambda v, e: np.exp(v - v.max()) / np.exp(v - v.max()).sum() + e * 0,
}
STEPS = 5


def viewed(view: str, s: np.ndarray) -> np.ndarray:
    return {"reshape": s.ravel, "squeeze": lambda: s[0], "gather": lambda: s[1], "slice": lambda: s[:1]}.get(
        view, lambda: s.T
    )()


def model(view: str, operator: str) -> onnx.ModelProto:
    """Return a loop that computes `operator` of a captured value, seen through `view`, and of a carried number."""
    shape, op, others, attributes = VIEWS[view]
    size = int(np.prod(shape))
    constants = {f"c{k}": np.array(c) for k, c in enumerate(others)}
    constants |= {"zero": np.array([0]), "size": np.array([size]), "shape": np.array(shape, np.int64).reshape(-1)}
    constants |= {"true": np.array(True), "flat": np.array([-1]), "f": np.float32(1.5)}
    constants |= {"half": np.float32(0.5), "start": np.float32(0.1)}
    node = helper.make_node
    compute = [node(operator, ["flat_view"] if operator == "Softmax" else ["view", "e"], ["result"])]
    body = helper.make_graph(
        [
            node("Gather", ["x", "i"], ["e"], axis=0),
            node("Mul", ["e", "t"], ["product"]),
            node("Add", ["product", "half"], ["next"]),
            node(op, ["s", *(f"c{k}" for k in range(len(others)))], ["view"], **attributes),
            *([node("Reshape", ["view", "flat"], ["flat_view"])] if operator == "Softmax" else []),
            *compute,
            node("Reshape", ["result", "flat"], ["row"]),
            node("Identity", ["go"], ["go_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, []),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, []),
            helper.make_tensor_value_info("row", TensorProto.FLOAT, None),
        ],
    )
    graph = helper.make_graph(
        [
            node("Slice", ["x", "zero", "size"], ["first"]),
            node("Mul", ["first", "f"], ["scaled"]),
            node("Reshape", ["scaled", "shape"], ["s"]),
            node("Loop", ["steps", "true", "start"], ["end", "rows"], body=body),
        ],
        "loop",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [9]),
            helper.make_tensor_value_info("steps", TensorProto.INT64, []),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("rows", "end")],
        [numpy_helper.from_array(c, name) for name, c in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_later_steps_read_captured_values_as_they_are(view: str, operator: str, tmp_path: Path) -> None:
    onnx.save(model(view, operator), tmp_path / "loop.onnx")
    x = np.linspace(0.2, 1.5, 9, dtype=np.float32)
    shape = VIEWS[view][0]
    s = (x[: int(np.prod(shape))] * np.float32(1.5)).reshape(shape)
    rows, t = [], np.float32(0.1)
    for e in x[:STEPS]:
        rows.append(np.reshape(OPERATORS[operator](viewed(view, s), e), -1))
        t = e * t + np.float32(0.5)
    run = anylayer.read(tmp_path / "loop.onnx").compile("openvino")
    for _ in range(2):
        results = run({"x": x, "steps": np.array(STEPS)})
        np.testing.assert_allclose(results["rows"], rows, rtol=1e-5)
        np.testing.assert_allclose(results["end"], t, rtol=1e-5)
