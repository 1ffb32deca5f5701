"""Call OpenVINO directly, in float32.

spec: forms {name: .onnx or .xml}, inputs (.npz), order (the input names in the model's order), outputs (the output
names in the model's order), threads; extension (a library that the models need); python (a file of layer classes
that the model's Python operators call).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino as ov

from benchmarks.runners import Loaded, read_inputs


def load(spec: dict[str, Any]) -> Loaded:
    """Compile a model for each form. A call infers with shared inputs and reads shared outputs."""
    inputs = read_inputs(spec["inputs"])
    core = ov.Core()
    if spec.get("extension"):
        core.add_extension(spec["extension"])
    troubles: dict[str, str] = {}
    calls: dict[str, Callable[[], Any]] = {}
    for form, path in spec["forms"].items():
        try:
            calls[form] = _call(core, core.read_model(path), inputs, spec)
        except RuntimeError as error:
            troubles[form] = str(error)
    if spec.get("native"):
        from benchmarks.native_openvino import build as build_native

        if (native := build_native(spec["native"], inputs)) is not None:
            calls["its own operation"] = _call(core, native, inputs, spec)
    if spec.get("python"):
        from benchmarks.runners.openvino_python import build

        calls["python op"] = _call(core, build(spec["python"], inputs), inputs, spec)

    def outputs(form: str) -> dict[str, np.ndarray]:
        return {name: np.array(value) for name, value in zip(spec["outputs"], calls[form]())}

    return Loaded(calls, outputs, {"version": ov.__version__, "troubles": troubles})


def _call(core: Any, model: Any, inputs: dict[str, np.ndarray], spec: dict[str, Any]) -> Callable[[], Any]:
    config = {
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": spec["threads"],
    }
    compiled = core.compile_model(model, "CPU", config)
    request = compiled.create_infer_request()
    feed = {i: inputs[key] for i, key in enumerate(spec["order"]) if i < len(compiled.inputs)}
    return lambda: request.infer(feed, share_inputs=True, share_outputs=True).to_tuple()
