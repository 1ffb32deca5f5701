"""Measure fifteen operators, each alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import caffemodel, native_onnx
from benchmarks.operators import OPERATORS, Operator
from benchmarks.setup import Field, Row, Setup, save_inputs

PART = "operators"
_HERE = Path(__file__).resolve().parent.parent


def run(setup: Setup) -> Iterator[Row]:
    """Yield a row for each operator that is asked for."""
    for operator in OPERATORS:
        if setup.wants(operator.name):
            with Field(setup, operator.name) as field:
                yield _row(setup, operator, field)


def _row(setup: Setup, operator: Operator, field: Field) -> Row:
    model, weights = field.folder / "deploy.prototxt", field.folder / "weights.caffemodel"
    model.write_text(operator.text())
    blobs = [("y", operator.kind, operator.weights)] if operator.weights else []
    caffemodel.write(weights, operator.name, blobs)
    path = save_inputs(field.folder / "inputs.npz", operator.inputs())
    ours = field.load(
        "anylayer",
        "anylayer",
        {
            "model": str(model),
            "weights": str(weights) if blobs else None,
            "dialect": operator.dialect,
            "layers": [_placed(text) for text in operator.layers],
            "inputs": path,
            "engine": setup.engine,
            "export": str(field.folder),
        },
    )
    _engines(field, operator, ours, path)
    _peers(field, operator, ours, path, model, weights if blobs else None)
    if operator.kind == "DetectionOutput":
        field.compare("anylayer", operator.tolerance, found)
    else:
        field.compare("anylayer", operator.tolerance)
    field.measure()
    return field.row(PART, note=operator.note)


def found(detections: np.ndarray) -> np.ndarray:
    """Return rows of label, score and box, sorted by label, then by descending score. Some engines put the image
    first, and engines differ in the order of the rows.
    """
    rows = detections.reshape(-1, detections.shape[-1])[:, -6:]
    return rows[np.lexsort((rows[:, 2], -rows[:, 1], rows[:, 0]))]


def _placed(text: str) -> str:
    kind, _, place = text.partition("=")
    return f"{kind}={_HERE / place}"


def _engines(field: Field, operator: Operator, ours: dict[str, Any], path: str) -> None:
    onnx = ours.get("onnx")
    shape = ours.get("shapes", {}).get("y")
    by_hand = native_onnx.write(operator, shape, field.folder) if shape else {}
    names = onnx["inputs"] if onnx else list(operator.inputs())
    for column in ("onnxruntime", "openvino"):
        written = onnx["forms"][column] if onnx else {}
        spec = {"inputs": path, "order": names, "outputs": ["y"], "forms": {**written, **by_hand}}
        if column == "openvino":
            spec["native"] = operator.name
        if not spec["forms"] and column == "onnxruntime":
            field.entries[column] = {"error": "nothing to run"}
            continue
        field.load(column, column, spec)


def _peers(
    field: Field, operator: Operator, ours: dict[str, Any], path: str, model: Path, weights: Path | None
) -> None:
    common = {"inputs": path, "outputs": ["y"], "order": list(operator.inputs())}
    forms = {"caffe": str(model)} if operator.opencv else {}
    onnx = ours.get("onnx")
    spec = {**common, "model": forms.get("caffe"), "weights": str(weights) if weights else None}
    field.load(
        "opencv", "opencv", {**spec, "onnx": onnx["forms"]["onnxruntime"]["plain"] if onnx else None}, peer=True
    )
    written = {} if onnx is None or "error" in onnx["ncnn"] else {"exported": onnx["ncnn"]}
    if operator.ncnn:
        written["by hand"] = _ncnn_by_hand(field, operator)
    if not written:
        field.entries["ncnn"] = {"error": "no such layer"}
        return
    field.load("ncnn", "ncnn", {**common, "forms": written}, peer=True)


def _ncnn_by_hand(field: Field, operator: Operator) -> dict[str, Any]:
    param, binary = field.folder / "by_hand.param", field.folder / "by_hand.bin"
    inputs = operator.inputs()
    lines = [f"Input {name} 0 1 {name}" for name in inputs] + [operator.ncnn]
    param.write_text("\n".join(["7767517", f"{len(lines)} {len(lines)}", *lines]) + "\n")
    binary.write_bytes(b"".join(np.asarray(w, "<f4").tobytes() for w in operator.ncnn_weights))
    places = {name: [name, list(array.shape[1:])] for name, array in inputs.items()}
    return {"param": str(param), "bin": str(binary), "inputs": places, "blobs": ["y"]}
