"""Call OpenCV's own Caffe importer (4.x has one; 5 has none).

spec: model, weights, inputs (.npz), outputs (names), threads; custom (layer types of custom_layers.py to register,
or absent); onnx (the same network as ONNX, or absent).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from benchmarks.runners import Arrays, Loaded, read_inputs


def load(spec: dict[str, Any]) -> Loaded:
    """Offer a call that sets the inputs and fetches the outputs, as OpenCV's users do."""
    cv2.setNumThreads(spec["threads"])
    if spec.get("custom"):
        from benchmarks.custom_layers import CLASSES

        for name in spec["custom"]:
            cv2.dnn_registerLayer(name, CLASSES[name])
    inputs, wanted = read_inputs(spec["inputs"]), spec["outputs"]
    calls: dict[str, Callable[[], Any]] = {}
    troubles = []
    for form in ("caffe", "onnx"):
        try:
            net = _read(form, spec)
            if net is not None:
                call = _call(net, inputs, spec["order"], wanted if form == "caffe" else None)
                call()
                calls[form] = call
        except cv2.error as error:
            troubles.append(f"{form}: {str(error).splitlines()[0]}")
    if not calls:
        raise RuntimeError("; ".join(troubles))
    return Loaded(
        calls,
        lambda form: {name: np.array(value) for name, value in zip(wanted, calls[form]())},
        {"version": cv2.__version__, "troubles": troubles},
    )


def _read(form: str, spec: dict[str, Any]) -> Any:
    if form == "onnx":
        return cv2.dnn.readNetFromONNX(spec["onnx"]) if spec.get("onnx") else None
    return cv2.dnn.readNetFromCaffe(spec["model"], spec.get("weights") or "") if spec.get("model") else None


def _call(net: Any, inputs: Arrays, order: list[str], wanted: list[str] | None) -> Callable[[], Any]:
    names = wanted or net.getUnconnectedOutLayersNames()

    def call() -> Any:
        for name in order:
            if len(order) == 1:
                net.setInput(inputs[name])
            else:
                net.setInput(inputs[name], name)
        return net.forward(names)

    return call
