"""Measure custom layers: HED with OpenCV's tutorial class, and a network of Python layers only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tools.reference import REFERENCE, absent

from benchmarks import caffemodel
from benchmarks.custom_layers import BRANCHES, SCALE, SHAPES
from benchmarks.parts.networks import direct, fill
from benchmarks.prototxt import Prototxt
from benchmarks.setup import Field, Row, Setup, save_inputs

PART = "layers"
_CLASSES = Path(__file__).resolve().parent.parent / "custom_layers.py"
_CROP = f"Crop={_CLASSES}:CropLayer"
_OWN = {kind.__name__: f"{kind.__name__}={_CLASSES}:{kind.__name__}" for kind, _, _ in BRANCHES.values()}


def run(setup: Setup) -> Iterator[Row]:
    """Yield two rows."""
    for name, measured in (("hed_python_crop", _hed), ("python_layers", _python)):
        if setup.wants(name):
            with Field(setup, name) as field:
                row = measured(setup, field)
            yield row


def _hed(setup: Setup, field: Field) -> Row:
    if reason := absent("models/hed"):
        return {"part": PART, "name": field.name, "columns": {}, "note": reason}
    source = REFERENCE / "models/hed/deploy.prototxt"
    model, weights = field.folder / "deploy.prototxt", field.folder / "weights.caffemodel"
    model.write_text(source.read_text())
    fill(model, weights, layers=[_CROP])
    inputs = {"data": np.random.default_rng(1).standard_normal((1, 3, 500, 500), np.float32)}
    path = save_inputs(field.folder / "inputs.npz", inputs)
    outputs = [f"sigmoid-{end}" for end in ("dsn1", "dsn2", "dsn3", "dsn4", "dsn5", "fuse")]
    spec: dict[str, Any] = {"model": str(model), "weights": str(weights), "inputs": path, "outputs": outputs}
    ours = field.load(
        "anylayer", "anylayer", {**spec, "layers": [_CROP], "engine": setup.engine, "export": str(field.folder)}
    )
    field.load("opencv", "opencv", {**spec, "order": ["data"], "custom": ["Crop"]}, peer=True)
    field.compare("anylayer")
    field.measure({"anylayer": ["call"]}, short=True)
    return field.row(PART, note="HED with the Crop class of OpenCV's tutorial", host_calls=ours.get("host_calls"))


def _python(setup: Setup, field: Field) -> Row:
    model, weights = field.folder / "deploy.prototxt", field.folder / "weights.caffemodel"
    model.write_text(_text())
    caffemodel.write(weights, "python_layers", [("normalize_out", "MyNormalize", [SCALE])])
    noise = np.random.default_rng(1)
    inputs = {name: noise.standard_normal(shape, np.float32) for name, shape in SHAPES.items()}
    path = save_inputs(field.folder / "inputs.npz", inputs)
    outputs = [f"{name}_out" for name in BRANCHES]
    spec: dict[str, Any] = {"model": str(model), "weights": str(weights), "inputs": path, "outputs": outputs}
    ours = field.load(
        "anylayer",
        "anylayer",
        {**spec, "layers": list(_OWN.values()), "engine": setup.engine, "export": str(field.folder)},
    )
    order = list(BRANCHES)
    field.load("opencv", "opencv", {**spec, "order": order, "custom": list(_OWN)}, peer=True)
    field.load("openvino python", "openvino", {**spec, "order": order, "forms": {}, "python": str(_CLASSES)})
    direct(field, ours, path)
    field.compare("anylayer")
    field.measure()
    return field.row(PART, note="Interp, Normalize and leaky ReLU in NumPy", host_calls=ours.get("host_calls"))


def _text() -> str:
    net = Prototxt("python_layers")
    inputs = {name: net.input(name, shape) for name, shape in SHAPES.items()}
    for name, (kind, _, _) in BRANCHES.items():
        net.layer(f"{name}_out", kind.__name__, inputs[name])
    return net.text()
