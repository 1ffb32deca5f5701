"""Layers in OpenCL as operations of models for OpenVINO's GPU plugin.

The plugin is given the user's own configuration of kernels (CONFIG_FILE), and computes each operation whose type
the configuration has. The parameters of a layer are strings, because the plugin writes floats with six decimals.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np

from anylayer.compile.plan import NATIVE_DOMAIN
from anylayer.errors import EngineError, need
from anylayer.kernels.opencl.defines import parameter_texts
from anylayer.kernels.opencl.layer import OpenCLLayer
from anylayer.libraries.openvino import add_onnx_operator, ov

OPERATOR = "OpenCLLayer"
_layers: dict[int, OpenCLLayer] = {}
"""The layers of the models that exist, by the number that is the attribute `call` of their operators."""
_numbers = itertools.count(1)
_lock = threading.Lock()


def fits_plugin(kernel: object) -> bool:
    """Return whether the plugin can compute a layer. It has no blobs as arguments, and arrays are float32 in the
    order N, C, H, W. A layer for which the user has chosen another device is not accepted.
    """
    if not isinstance(kernel, OpenCLLayer) or kernel.kernel.settings.asked.device.lower() not in ("", "gpu"):
        return False
    values = [*kernel.types, *kernel.outputs]
    return (
        not kernel.blobs
        and all(t.dtype == np.float32 and math.prod(t.shape) for t in values)
        and all(len(t.shape) < 4 or kernel.node.layout == "NCHW" for t in values)
    )


class PluginKernels:
    """The layers in OpenCL of one model. `numbers` are the values of the operators' attribute `call`. `config` is
    the plugin's configuration. Raises EngineError if the layers come from several files.
    """

    def __init__(self, layers: Sequence[OpenCLLayer]) -> None:
        files = {layer.layer.file: layer.kernel.library for layer in layers}
        need(len(files) < 2, f"OpenVINO's GPU plugin takes one configuration, not {len(files)}", EngineError)
        self.config = {key: str(Path(file).absolute()) for key, file in zip(["CONFIG_FILE"], files)}
        self.numbers = [next(_numbers) for _ in layers]
        for number, layer in zip(self.numbers, layers):
            _layers[number] = layer
            finalize(self, _layers.pop, number)
        self._types = {name for library in files.values() for name in library.types}
        if layers:
            _register()

    def need_only_these(self, model: Any) -> None:
        """Raise EngineError if the plugin would use the configuration for operations of OpenVINO's own, too."""
        others = {node.get_type_name() for node in model.get_ops() if not isinstance(node, _OpenCLOperation)}
        foreign = sorted(others & self._types)
        rule = f"the configuration of kernels has types of OpenVINO's own: {', '.join(foreign)}"
        need(not foreign, rule, EngineError)


class _OpenCLOperation(ov.Op):  # type: ignore[misc]  # openvino is Any
    """An operation that only the plugin can compute. Its type is the name of its class."""

    def __init__(self, inputs: Sequence[Any], layer: OpenCLLayer) -> None:
        self.layer = layer
        super().__init__(self, inputs)

    def validate_and_infer_types(self) -> None:
        for i, kind in enumerate(self.layer.outputs):
            self.set_output_type(i, ov.Type.f32, ov.PartialShape(list(kind.shape)))

    def clone_with_new_inputs(self, inputs: Sequence[Any]) -> _OpenCLOperation:
        return type(self)(inputs, self.layer)

    def visit_attributes(self, visitor: Any) -> bool:
        visitor.on_attributes(parameter_texts(self.layer.layer, self.layer.node))
        return True


@cache
def _operation(name: str) -> type[_OpenCLOperation]:
    return type(name, (_OpenCLOperation,), {})


def _convert(node: Any) -> list[Any]:
    layer = _layers[int(node.get_attribute("call"))]
    inputs = [node.get_input(i) for i in range(node.get_input_size())]
    return _operation(layer.layer.type)(inputs, layer).outputs()


@cache
def _add_operator() -> None:
    add_onnx_operator(OPERATOR, NATIVE_DOMAIN, _convert)


def _register() -> None:
    """Have OpenVINO convert the operator of layers in OpenCL, once."""
    with _lock:
        _add_operator()
