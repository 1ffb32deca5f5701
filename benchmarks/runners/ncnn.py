"""ncnn on a .param and .bin that benchmarks/ncnn_network.py wrote.

spec: param, bin, inputs (.npz), order (blob name of each input), outputs (blob names), threads.
"""

from __future__ import annotations

from typing import Any

import ncnn
import numpy as np

from benchmarks.runners import Loaded, read_inputs


def load(spec: dict[str, Any]) -> Loaded:
    """One call: a new extractor, inputs as views of NumPy's memory, outputs as views of ncnn's."""
    net = ncnn.Net()
    net.opt.num_threads = spec["threads"]
    net.opt.use_vulkan_compute = False
    for flag in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
        setattr(net.opt, flag, False)
    if net.load_param(spec["param"]) != 0 or net.load_model(spec["bin"]) != 0:
        raise RuntimeError(f"ncnn refuses {spec['param']}")
    inputs = read_inputs(spec["inputs"])
    mats = {name: ncnn.Mat(_without_batch(inputs[name])) for name in spec["order"]}

    def call() -> list[Any]:
        extractor = net.create_extractor()
        for name, mat in mats.items():
            extractor.input(name, mat)
        results = []
        for name in spec["outputs"]:
            code, mat = extractor.extract(name)
            if code != 0:
                raise RuntimeError(f"ncnn cannot compute '{name}': {code}")
            results.append(mat)
        return results

    def outputs(_: str) -> dict[str, np.ndarray]:
        return {name: np.array(mat)[None] for name, mat in zip(spec["outputs"], call())}

    return Loaded({"ncnn": call}, outputs, {"version": ncnn.__version__})


def _without_batch(array: np.ndarray) -> np.ndarray:
    return array[0] if array.ndim > 1 and array.shape[0] == 1 else array
