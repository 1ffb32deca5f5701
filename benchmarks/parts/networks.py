"""Measure the fourteen whole networks, and detectors with their selection of boxes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tools.reference import absent

import anylayer
from anylayer.compile.inputs import input_types
from anylayer.compile.nodes import trace_nodes
from benchmarks import caffemodel
from benchmarks.networks import DETECTORS, NETWORKS, Source
from benchmarks.onnx_forms import forms
from benchmarks.setup import Field, Row, Setup, save_inputs

PART = "networks"


def run(setup: Setup) -> Iterator[Row]:
    """Yield a row for each network that is asked for and whose files exist."""
    for source in (*NETWORKS, *DETECTORS):
        if not setup.wants(source.name):
            continue
        if source.make is None and not source.path.is_file():
            yield {"part": PART, "name": source.name, "columns": {}, "note": absent(source.model)}
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
    field.compare("anylayer")
    large = sum(node.macs or 0 for node in net.inspect({n: list(s) for n, s in kind.items()}).nodes) > 20e9
    field.measure({"anylayer": ["call"]}, short=large)
    return field.row(PART, note=source.note)


ENGINES = ("onnxruntime", "openvino", "ncnn")


def direct(field: Field, ours: dict[str, Any], inputs: str, engines: Sequence[str] = ENGINES) -> None:
    """Load the engines that are called directly with the graph that anylayer wrote, and with other forms of it."""
    onnx = ours.get("onnx")
    if onnx is None:
        for column in engines:
            field.entries[column] = {"error": "no single graph"}
        return
    spec = {"inputs": inputs, "order": onnx["inputs"], "outputs": onnx["outputs"]}
    for column in ("onnxruntime", "openvino"):
        if column in engines:
            field.load(column, column, {**spec, "forms": forms(onnx["forms"][column], column)})
    if "ncnn" not in engines:
        return
    if "error" in onnx["ncnn"]:
        field.entries["ncnn"] = {"error": onnx["ncnn"]["error"]}
    else:
        field.load("ncnn", "ncnn", {**spec, "forms": {"written": onnx["ncnn"]}}, peer=True)


def prepare(source: Source, folder: Path) -> tuple[Path, Path]:
    """Return the network's text with an input of one image, and its weights: its own or random ones."""
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
    """Write random weights for a network; bilinear kernels stay unchanged. No blob is constant, because engines
    treat a constant differently: a bias of 0.2 throughout keeps OpenVINO from fusing it.
    """
    noise = np.random.default_rng(0)
    net = anylayer.read(model, **reading).fill(seed=0)
    network = net.network
    for traced in trace_nodes(network, network.nodes, net.definitions, input_types(network, None)):
        bound, node = traced.bound, traced.node
        if bound is not None and bound.definition.typed and not node.blobs:
            wanted = bound.instance.wanted
            node.blobs = [np.array(wanted[i].values(), np.float32) for i in sorted(wanted)]
        node.blobs = [_uneven(blob, noise) for blob in node.blobs]
    layers = [(node.name, node.type, node.blobs) for node in network.nodes if node.blobs]
    caffemodel.write(weights, network.name, layers)


def _uneven(blob: np.ndarray, noise: np.random.Generator) -> np.ndarray:
    """Return the blob; if all its values are equal, each is changed by up to half."""
    if blob.size < 2 or np.ptp(blob) > 0:
        return blob
    return np.asarray((blob if blob.flat[0] else 0.1) * noise.uniform(0.5, 1.5, blob.shape), np.float32)


def with_shape(text: str, shape: tuple[int, ...]) -> str:
    """Replace the first four dimensions in the text, which are those of the input."""
    dims = iter(shape)
    return re.sub(r"((?:input_)?dim:\s*)\d+", lambda found: f"{found[1]}{next(dims)}", text, count=len(shape))


def for_opencv(model: Path) -> Path:
    """Write a copy for OpenCV: depthwise convolutions get the type that OpenCV knows (they state their groups
    themselves), and the YOLO layer is removed, which OpenCV does not know and which no measured output needs.
    """
    path = model.with_name("opencv.prototxt")
    text = re.sub(r'"DepthwiseConvolution"', '"Convolution"', model.read_text())
    path.write_text(without_layers(text, "Yolov3DetectionOutput"))
    return path


def without_layers(text: str, kind: str) -> str:
    """Return the text without its layers of one type."""
    pieces, start = [], 0
    for found in re.finditer(r"^layer\s*\{", text, re.MULTILINE):
        if found.start() < start:
            continue
        end, depth = found.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if f'"{kind}"' in text[found.start() : end]:
            pieces.append(text[start : found.start()])
            start = end
    return "".join([*pieces, text[start:]])
