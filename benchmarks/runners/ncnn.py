"""Call ncnn directly, in float32.

spec: forms {name: {param, bin, inputs {input: [blob, shape]}, blobs (of the outputs)}}, inputs (.npz), outputs
(names), threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ncnn
import numpy as np

from benchmarks.runners import Arrays, Loaded, read_inputs

_LOWER = (
    *("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_packed", "use_bf16_storage"),
    "use_vulkan_compute",
)


def load(spec: dict[str, Any]) -> Loaded:
    """Offer one call: a new extractor, with inputs as views of NumPy's memory and outputs as views of ncnn's."""
    inputs = read_inputs(spec["inputs"])
    calls = {form: _call(written, inputs, spec["threads"]) for form, written in spec["forms"].items()}

    def outputs(form: str) -> dict[str, np.ndarray]:
        return {name: np.array(mat)[None] for name, mat in zip(spec["outputs"], calls[form]())}

    return Loaded(dict(calls), outputs, {"version": ncnn.__version__})


def _call(written: dict[str, Any], inputs: Arrays, threads: int) -> Callable[[], list[Any]]:
    net = ncnn.Net()
    net.opt.num_threads = threads
    for flag in _LOWER:
        if hasattr(net.opt, flag):
            setattr(net.opt, flag, False)
    if net.load_param(written["param"]) != 0 or net.load_model(written["bin"]) != 0:
        raise RuntimeError(f"ncnn refuses {written['param']}")
    held = {blob: inputs[name].reshape(shape) for name, (blob, shape) in written["inputs"].items()}
    mats = {blob: ncnn.Mat(array).clone() for blob, array in held.items()}

    def call() -> list[Any]:
        extractor = net.create_extractor()
        for blob, mat in mats.items():
            extractor.input(blob, mat)
        results = []
        for blob in written["blobs"]:
            code, mat = extractor.extract(blob)
            if code != 0:
                raise RuntimeError(f"ncnn cannot compute '{blob}': {code}")
            results.append(mat)
        return results

    return call
