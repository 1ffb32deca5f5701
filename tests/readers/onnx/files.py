"""Make ONNX models with the onnx package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def value(name: str, shape: Sequence[Any] | None, dtype: Any = np.float32) -> onnx.ValueInfoProto:
    """Return the description of an input or output."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    constants: dict[str, Any] | None = None,
    opset: int = 18,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """Return a model. Its outputs are declared without shapes."""
    given = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "net", inputs, [onnx.ValueInfoProto(name=n) for n in outputs], given)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)


def save(made: onnx.ModelProto, name: str = "net.onnx") -> Path:
    """Write a model to a file in the test's folder and return its path."""
    Path(name).write_bytes(made.SerializeToString())
    return Path(name)
