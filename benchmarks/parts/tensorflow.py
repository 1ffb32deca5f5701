"""Measure networks of keras.applications as frozen TensorFlow graphs.

anylayer and OpenVINO read the .pb file; ONNX Runtime runs what tf2onnx converts. Part keras measures the same
networks from Keras' files. `benchmarks/keras_applications/make.py` and `freeze.py` make the files, in an
environment with TensorFlow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import anylayer
from benchmarks.processes import ROOT
from benchmarks.setup import Field, Row, Setup, save_inputs

PART = "tensorflow"
NETWORKS = (
    *("mobilenet", "mobilenet_v2", "mobilenet_v3_large", "resnet50", "inception_v3"),
    *("efficientnet_b0", "densenet121", "nasnet_mobile"),
)


def folder() -> Path:
    """Return the folder of the networks: $ANYLAYER_KERAS_NETWORKS, or .keras-networks in the repository."""
    return Path(os.environ.get("ANYLAYER_KERAS_NETWORKS") or ROOT / ".keras-networks")


def run(setup: Setup) -> Iterator[Row]:
    """Yield a row for each network that is asked for."""
    yield from rows(setup, PART, ".pb")


def rows(setup: Setup, part: str, suffix: str) -> Iterator[Row]:
    """Yield a row for each network, which anylayer reads from its file with this suffix."""
    for name in NETWORKS:
        if not setup.wants(name):
            continue
        files = [folder() / f"{name}{end}" for end in (suffix, ".pb", ".onnx", ".npz")]
        missing = next((path.name for path in files if not path.is_file()), None)
        if missing:
            yield {"part": part, "name": name, "columns": {}, "note": f"{missing} is not made"}
            continue
        with Field(setup, f"{part}_{name}") as field:
            yield {**_row(setup, field, part, *files), "name": name}


def _row(setup: Setup, field: Field, part: str, model: Path, frozen: Path, onnx: Path, known: Path) -> Row:
    net = anylayer.read(model)
    (entry,), (result,) = net.inputs, net.outputs
    with np.load(known) as file:
        path = save_inputs(field.folder / "inputs.npz", {entry: file["x"]})
    ours = field.load(
        "anylayer", "anylayer", {"model": str(model), "inputs": path, "engine": setup.engine, "export": None}
    )
    peers = {"inputs": path, "order": [entry], "outputs": [result]}
    field.load("onnxruntime", "onnxruntime", {**peers, "forms": {"tf2onnx": str(onnx)}})
    field.load("openvino", "openvino", {**peers, "forms": {"its own reader": str(frozen)}})
    field.compare("anylayer")
    field.measure({"anylayer": ["call"]})
    return field.row(part, transpositions=_transpositions(net, ours.get("engine")))


def _transpositions(net: anylayer.Net, engine: str | None) -> int:
    """Return how many transpositions are left in the graph that an engine gets."""
    from anylayer.compile.plan import GraphStep
    from anylayer.optimize.simplify import simplify

    plan = net.compile("onnxruntime").plan
    graphs = [step.graph for step in plan.steps if isinstance(step, GraphStep)]
    return sum(o.op == "Transpose" for graph in graphs for o in simplify(graph, engine).ops)
