"""OpenCV's own Caffe importer (4.x has one; 5 has none).

spec: model, weights, inputs (.npz), outputs (names), threads; layers (a file of Python layer classes to register,
or absent).
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from benchmarks.runners import Loaded, read_inputs


def load(spec: dict[str, Any]) -> Loaded:
    """One call sets the inputs and fetches the outputs, as OpenCV's users do."""
    cv2.setNumThreads(spec["threads"])
    if spec.get("custom"):
        from benchmarks.custom_layers import CLASSES

        for name in spec["custom"]:
            cv2.dnn_registerLayer(name, CLASSES[name])
    net = cv2.dnn.readNetFromCaffe(spec["model"], spec.get("weights") or "")
    inputs, wanted = read_inputs(spec["inputs"]), spec["outputs"]
    order = [name for name in spec.get("order", inputs)]
    single = len(inputs) == 1

    def call() -> Any:
        for name in order:
            if single:
                net.setInput(inputs[name])
            else:
                net.setInput(inputs[name], name)
        return net.forward(wanted)

    return Loaded(
        {"caffe": call},
        lambda _: {name: np.array(value) for name, value in zip(wanted, call())},
        {"version": cv2.__version__},
    )
