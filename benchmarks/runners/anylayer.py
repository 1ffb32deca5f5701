"""anylayer, as a user calls it.

spec: model, weights, layers, dialect, shapes, outputs (blobs wanted, or None), inputs (.npz), engine, threads,
export (a folder: the graph it runs is left there as ONNX, for the engines called directly).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import anylayer
from anylayer.compile.plan import make_plan
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
    """The network as ONNX files and as an ncnn network, with public output names; None where Python runs between
    its parts or nothing is left to run.

    `forms` are, for each engine: plain, as traced; simplified, as anylayer's rules for the engine leave it; whole
    operators, with LRN and PRelu as single operators where anylayer records pieces.
    """
    step = _single(model.plan)
    if step is None:
        return None
    from anylayer.optimize.simplify import simplify

    plain = _write(step.graph, folder / "network.onnx")
    forms = {engine: {"plain": plain} for engine in ENGINES}
    for engine in ENGINES:
        better = simplify(step.graph, engine)
        if _build(better) != _build(step.graph):
            forms[engine]["simplified"] = _write(better, folder / f"network_{engine}.onnx")
    with _whole_operators() as used:
        again = _single(make_plan(net.network, net.definitions, model.plan.inputs, model.plan.outputs))
    if used and again is not None:
        whole = _write(again.graph, folder / "network_whole.onnx")
        for engine in ENGINES:
            forms[engine]["whole operators"] = whole
    public = {value: name for name, value in model.plan.outputs.items()}
    return {
        "forms": forms,
        "inputs": step.inputs,
        "outputs": [public.get(name, name) for name in step.outputs],
        "ncnn": _ncnn(step, folder),
    }


def _single(plan: Any) -> Any:
    """The plan's only step, where it is one graph."""
    return plan.steps[0] if plan and len(plan.steps) == 1 and hasattr(plan.steps[0], "graph") else None


def _build(graph: Any) -> list[Any]:
    """How a graph is put together, whatever its values are called."""
    numbers: dict[Any, int] = {}
    for value in [*graph.inputs, *(v for o in graph.ops for v in [*o.inputs, *o.outputs] if v is not None)]:
        numbers.setdefault(value, len(numbers))
    return [(o.op, str(o.attrs), [v and (numbers[v], v.shape) for v in o.inputs]) for o in graph.ops]


def _write(graph: Any, path: Path) -> str:
    from anylayer.writers.onnx import to_onnx

    path.write_bytes(to_onnx(graph).SerializeToString())
    return str(path)


@contextmanager
def _whole_operators() -> Iterator[list[str]]:
    """Record LRN and PRelu as single operators; gives the names of those that were met."""
    from anylayer import ops
    from anylayer.tracing import record

    used: list[str] = []

    def lrn(x: Any, size: int, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
        used.append("LRN")
        return record("LRN", [x], x.shape, x.dtype, size=size, alpha=alpha, beta=beta, bias=bias)

    def prelu(x: Any, slope: Any) -> Any:
        used.append("PRelu")
        return record("PRelu", [x, slope], x.shape, x.dtype)

    before = ops.lrn._form, ops.prelu._form
    ops.lrn.form(lrn)
    ops.prelu.form(prelu)
    try:
        yield used
    finally:
        ops.lrn._form, ops.prelu._form = before


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
