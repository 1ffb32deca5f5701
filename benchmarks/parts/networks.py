"""The fourteen networks, whole."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import anylayer
from anylayer.engines.nodes import input_types, trace_nodes
from benchmarks import caffemodel, ncnn_network
from benchmarks.networks import NETWORKS, Source
from benchmarks.onnx_forms import forms
from benchmarks.setup import Field, Row, Setup, save_inputs

PART = "networks"


def run(setup: Setup) -> Iterator[Row]:
    """A row for each network that is asked for and whose files are there."""
    for source in NETWORKS:
        if not setup.wants(source.name):
            continue
        if source.make is None and not source.path.is_file():
            yield {"part": PART, "name": source.name, "columns": {}, "note": f"../shared/{source.model} is absent"}
            continue
        with Field(setup, source.name) as field:
            yield _row(setup, source, field)


def _row(setup: Setup, source: Source, field: Field) -> Row:
    model, weights = prepare(source, field.folder)
    net = anylayer.read(model, weights, dialect=source.dialect)
    outputs = list(source.outputs or net.network.outputs)
    kind = {n: source.shape or t.shape for n, t in net.inputs.items() if t is not None}
    noise = np.random.default_rng(1)
    inputs = {name: noise.standard_normal(shape, np.float32) for name, shape in kind.items()}
    path = save_inputs(field.folder / "inputs.npz", inputs)
    common = {"inputs": path, "outputs": outputs, "order": list(inputs)}
    ours = field.load(
        "anylayer",
        "anylayer",
        {
            "model": str(model),
            "weights": str(weights),
            "dialect": source.dialect,
            "outputs": list(source.outputs) or None,
            "inputs": path,
            "engine": setup.engine,
            "export": str(field.folder),
        },
    )
    direct(field, ours, path)
    peer = dict(common, model=str(for_opencv(model)), weights=str(weights))
    field.load("opencv", "opencv", peer, peer=True)
    _load_ncnn(field, net, inputs, common)
    field.compare("anylayer")
    large = sum(node.macs or 0 for node in net.inspect({n: list(s) for n, s in kind.items()}).nodes) > 20e9
    field.measure({"anylayer": ["call"]}, rounds=min(setup.rounds, 5) if large else None)
    return field.row(PART, note=source.note)


def direct(field: Field, ours: dict, inputs: str) -> None:
    """ONNX Runtime and OpenVINO on what anylayer exported and its other forms."""
    onnx = ours.get("onnx")
    if onnx is None:
        for column in ("onnxruntime", "openvino"):
            field.entries[column] = {"error": "no single graph"}
        return
    spec = {"inputs": inputs, "order": onnx["inputs"], "outputs": onnx["outputs"]}
    for column in ("onnxruntime", "openvino"):
        field.load(column, column, {**spec, "forms": forms(Path(onnx["path"]), column)})


def _load_ncnn(field: Field, net: anylayer.Net, inputs: dict, common: dict) -> None:
    if field.setup.peers is None:
        field.entries["ncnn"] = {"error": "peers absent"}
        return
    try:
        written = ncnn_network.write(net, {n: a.shape for n, a in inputs.items()}, common["outputs"], field.folder)
    except ncnn_network.Missing as error:
        field.entries["ncnn"] = {"error": str(error)}
        return
    field.load("ncnn", "ncnn", {**common, **written}, peer=True)


def prepare(source: Source, folder: Path) -> tuple[Path, Path]:
    """The network's text with its input for one image, and its weights: its own, or random ones."""
    model, weights = folder / "deploy.prototxt", folder / "weights.caffemodel"
    text = source.make() if source.make else source.path.read_text()
    if source.shape:
        text = with_shape(text, source.shape)
    model.write_text(text)
    if source.weights:
        shutil.copyfile(source.path.parent / source.weights, weights)
        return model, weights
    fill(model, weights, dialect=source.dialect)
    return model, weights


def fill(model: Path, weights: Path, **reading: Any) -> None:
    """Write weights for a network: random ones, and those its fillers give where they are constant (a scale of
    1, a bilinear kernel)."""
    net = anylayer.read(model, **reading).fill(seed=0)
    network = net.network
    for traced in trace_nodes(network, network.nodes, net.definitions, input_types(network, None)):
        bound = traced.bound
        if bound is not None and bound.definition.typed and not traced.node.blobs:
            wanted = bound.instance.wanted
            traced.node.blobs = [np.array(wanted[i].values(), np.float32) for i in sorted(wanted)]
    layers = [(node.name, node.type, node.blobs) for node in network.nodes if node.blobs]
    caffemodel.write(weights, network.name, layers)


def with_shape(text: str, shape: tuple[int, ...]) -> str:
    """The text with the first four dimensions it names replaced: those of its input."""
    dims = iter(shape)
    return re.sub(r"((?:input_)?dim:\s*)\d+", lambda found: f"{found[1]}{next(dims)}", text, count=len(shape))


def for_opencv(model: Path) -> Path:
    """A copy whose depthwise convolutions have the type that OpenCV knows (they name their groups themselves)."""
    path = model.with_name("opencv.prototxt")
    text = re.sub(r'"DepthwiseConvolution"', '"Convolution"', model.read_text())
    path.write_text(text)
    return path
