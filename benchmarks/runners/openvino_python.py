"""A network of Python layers only, run by OpenVINO with operators whose `evaluate` is Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
from openvino import Op

from benchmarks.custom_layers import BRANCHES


def build(_: str, inputs: dict[str, np.ndarray]) -> Any:
    """Return a model with one Python operator for each of BRANCHES; its input has the same name."""
    results, parameters = [], []
    for name, (kind, params, blobs) in BRANCHES.items():
        parameter = ov.opset15.parameter(list(inputs[name].shape), np.float32, name=name)
        parameters.append(parameter)
        operator = _operator(kind(params, blobs()), [parameter.output(0)])
        results.append(ov.opset15.result(operator.output(0)))
    return ov.Model(results, parameters, "python_layers")


def _operator(instance: Any, arguments: list[Any]) -> Any:
    class PythonLayer(Op):
        def __init__(self, given: list[Any]) -> None:
            super().__init__(self, given)

        def validate_and_infer_types(self) -> None:
            shape = instance.getMemoryShapes([list(self.get_input_shape(0))])[0]
            self.set_output_type(0, ov.Type.f32, ov.PartialShape(shape))

        def clone_with_new_inputs(self, given: list[Any]) -> Any:
            return PythonLayer(given)

        def has_evaluate(self) -> bool:
            return True

        def evaluate(self, outputs: list[Any], given: list[Any]) -> bool:
            result = instance.forward([tensor.data for tensor in given])[0]
            np.copyto(outputs[0].data, result)
            return True

    return PythonLayer(arguments)
