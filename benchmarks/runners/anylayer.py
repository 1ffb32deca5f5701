"""anylayer, as a user calls it.

spec: model, weights, layers, dialect, shapes, outputs (blobs wanted, or None), inputs (.npz), engine, threads,
export (a folder: the graph it runs is left there as ONNX, for the engines called directly).
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

import anylayer
from benchmarks.runners import Arrays, Loaded, read_inputs


def load(spec: dict[str, Any]) -> Loaded:
    """Compile, measure as the user would: a call that returns arrays, and one that fills the user's own."""
    net = anylayer.read(
        spec["model"], spec.get("weights"), layers=spec.get("layers", ()), dialect=spec.get("dialect")
    )
    inputs = read_inputs(spec["inputs"])
    shapes = {name: array.shape for name, array in inputs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = net.compile(spec["engine"], shapes, spec["threads"], spec.get("outputs"))
        first = model(inputs)
    buffers = {name: np.empty_like(array) for name, array in first.items()}
    facts = {
        "engine": model.engine,
        "timings": model.timings,
        "shapes": {name: list(array.shape) for name, array in first.items()},
        "host_calls": [[name, kind] for name, kind, _ in model.host_calls],
    }
    if spec.get("export"):
        facts["onnx"] = _export(model, Path(spec["export"]))
    return Loaded(
        {"call": lambda: model(inputs), "into": lambda: model(inputs, buffers)},
        lambda name: dict(model(inputs) if name == "call" else _filled(model, inputs, buffers)),
        facts,
    )


def _filled(model: Any, inputs: Arrays, buffers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    for array in buffers.values():
        array.fill(np.nan)
    return dict(model(inputs, buffers))


def _export(model: Any, folder: Path) -> dict[str, Any] | None:
    """The network as one ONNX file and as an ncnn network, with public output names; None where Python runs
    between its parts or nothing is left to run."""
    from anylayer.writers.onnx import to_onnx

    plan = model.plan
    if plan is None or len(plan.steps) != 1 or not hasattr(plan.steps[0], "graph"):
        return None
    step = plan.steps[0]
    path = folder / "network.onnx"
    path.write_bytes(to_onnx(step.graph).SerializeToString())
    public = {value: name for name, value in plan.outputs.items()}
    return {
        "path": str(path),
        "inputs": step.inputs,
        "outputs": [public.get(name, name) for name in step.outputs],
        "ncnn": _ncnn(step, folder),
    }


def _ncnn(step: Any, folder: Path) -> dict[str, Any]:
    """The same for ncnn: param and bin files and what its blobs are called, or why there is none."""
    try:
        from anylayer.writers.ncnn import to_ncnn
    except ImportError:
        return {"error": "anylayer writes no ncnn network"}
    try:
        written = to_ncnn(step.graph)
    except anylayer.AnyLayerError as error:
        return {"error": str(error)}
    param, binary = folder / "network.param", folder / "network.bin"
    param.write_text(written.text)
    with binary.open("wb") as file:
        for array in written.weights:
            np.ascontiguousarray(array).tofile(file)
    places = zip(step.inputs, written.inputs)
    return {
        "param": str(param),
        "bin": str(binary),
        "inputs": {name: list(place) for name, place in places if place is not None},
        "blobs": list(written.outputs),
    }
