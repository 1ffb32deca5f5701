"""The forms of a network for the engines that are called directly; the fastest form counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper


def forms(written: dict[str, str], engine: str) -> dict[str, str]:
    """Return the forms that anylayer wrote of a network for an engine, and others that are known to be faster on
    it.
    """
    found = dict(written)
    plain = found["plain"]
    if engine == "onnxruntime" and (model := without_lrn(onnx.load(plain))) is not None:
        other = Path(plain).with_name("network_lrn.onnx")
        onnx.save(model, str(other))
        found["LRN as convolution"] = str(other)
    return found


def without_lrn(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Replace each LRN with beta 0.75 by a square, a banded 1x1 convolution, two square roots and a division.
    Return None if the model has no LRN.
    """
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in _inferred(model)}
    nodes: list[onnx.NodeProto] = []
    changed = False
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type != "LRN" or abs(attributes.get("beta", 0.75) - 0.75) > 1e-9:
            nodes.append(node)
            continue
        changed = True
        new, tensors = _lrn(node, attributes, shapes[node.input[0]][1])
        nodes.extend(new)
        model.graph.initializer.extend(tensors)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model if changed else None


def _inferred(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    return [*graph.value_info, *graph.input, *graph.output]


def _lrn(
    node: onnx.NodeProto, attributes: dict[str, float], channels: int
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    x, y, size = node.input[0], node.output[0], int(attributes["size"])
    place = np.arange(channels)
    near = np.abs(place[:, None] - place[None]) <= size // 2
    band = (near * np.float32(attributes["alpha"] / size)).astype(np.float32)[:, :, None, None]
    bias = np.full(channels, attributes.get("bias", 1.0), np.float32)
    tensors = [numpy_helper.from_array(band, f"{y}_band"), numpy_helper.from_array(bias, f"{y}_bias")]
    steps = [
        ("Mul", [x, x], "square"),
        ("Conv", [f"{y}_square", f"{y}_band", f"{y}_bias"], "sum"),
        ("Sqrt", [f"{y}_sum"], "root"),
        ("Sqrt", [f"{y}_root"], "root4"),
        ("Mul", [f"{y}_root", f"{y}_root4"], "scale"),
    ]
    new = [helper.make_node(op, inputs, [f"{y}_{name}"]) for op, inputs, name in steps]
    return [*new, helper.make_node("Div", [x, f"{y}_scale"], [y])], tensors
