"""Run anylayer as a user calls it.

spec: model, weights, layers, dialect, shapes, outputs (wanted blobs, or None), inputs (.npz), engine, threads,
export (a folder for the executed graph as ONNX, for the engines that are called directly).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import anylayer
from anylayer.compile.plan import make_plan
from benchmarks.runners import Arrays, Loaded, read_inputs


def load(spec: dict[str, Any]) -> Loaded:
    """Compile. Offer a call that returns new arrays, and one that fills the user's own."""
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
        "parts": [engine for engine, _ in model.parts],
        "timings": model.timings,
        "shapes": {name: list(array.shape) for name, array in first.items()},
        "host_calls": [[name, kind] for name, kind, _ in model.host_calls],
    }
    if spec.get("export"):
        facts["onnx"] = _export(net, model, Path(spec["export"]))
    return Loaded(
        {"call": lambda: model(inputs), "into": lambda: model(inputs, buffers)},
        lambda name: dict(model(inputs) if name == "call" else _filled(model, inputs, buffers)),
        facts,
    )


def _filled(model: Any, inputs: Arrays, buffers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    for array in buffers.values():
        array.fill(np.nan)
    return dict(model(inputs, buffers))


ENGINES = ("onnxruntime", "openvino")


def _export(net: Any, model: Any, folder: Path) -> dict[str, Any] | None:
    """Write the network as ONNX files and as an ncnn network, with public output names. Return None if there are
    host calls, or nothing to run.

    The forms for each engine are: plain, as traced; simplified, rewritten by anylayer's rules for the engine.
    """
    plan = model.plan and make_plan(net.network, net.definitions, model.plan.inputs, model.plan.outputs)
    step = _single(plan)
    if step is None:
        return None
    from anylayer.optimize.simplify import simplify

    plain = _write(step.graph, folder / "network.onnx")
    forms = {engine: {"plain": plain} for engine in ENGINES}
    for engine in ENGINES:
        better = simplify(step.graph, engine)
        if _build(better) != _build(step.graph):
            forms[engine]["simplified"] = _write(better, folder / f"network_{engine}.onnx")
    public = {value: name for name, value in plan.outputs.items()}
    return {
        "forms": forms,
        "inputs": step.inputs,
        "outputs": [public.get(name, name) for name in step.outputs],
        "ncnn": _ncnn(simplify(step.graph, "ncnn"), step.inputs, folder),
    }


def _single(plan: Any) -> Any:
    """Return the plan's step if it is a single graph."""
    return plan.steps[0] if plan and len(plan.steps) == 1 and hasattr(plan.steps[0], "graph") else None


def _build(graph: Any) -> list[Any]:
    """Return a description of a graph's structure that does not depend on the names of its values."""
    numbers: dict[Any, int] = {}
    for value in [*graph.inputs, *(v for o in graph.ops for v in [*o.inputs, *o.outputs] if v is not None)]:
        numbers.setdefault(value, len(numbers))
    return [(o.op, str(o.attrs), [v and (numbers[v], v.shape) for v in o.inputs]) for o in graph.ops]


def _write(graph: Any, path: Path) -> str:
    from anylayer.writers._onnx_model import to_onnx

    path.write_bytes(to_onnx(graph).SerializeToString())
    return str(path)


def _ncnn(graph: Any, inputs: Sequence[str], folder: Path) -> dict[str, Any]:
    """Write param and bin files for ncnn. Return them with the names of the blobs, or the reason why there are
    none. inputs: the public names of the graph's inputs.
    """
    try:
        from anylayer.writers.ncnn import to_ncnn
    except ImportError:
        return {"error": "anylayer writes no ncnn network"}
    try:
        written = to_ncnn(graph)
    except anylayer.AnyLayerError as error:
        return {"error": str(error)}
    param, binary = folder / "network.param", folder / "network.bin"
    param.write_text(written.text)
    with binary.open("wb") as file:
        for array in written.weights:
            np.ascontiguousarray(array).tofile(file)
    places = zip(inputs, written.inputs)
    return {
        "param": str(param),
        "bin": str(binary),
        "inputs": {name: list(place) for name, place in places if place is not None},
        "blobs": [name for name, _ in written.outputs],
    }
