"""Time layers in cv2 for benchmarks/targets.py: python -m benchmarks.runners.opencv_layers FOLDER

FOLDER has cases.json, a project of `generate --for opencv-python` in project/, and the models plain_<i>.onnx,
whose nodes are the same classes, registered here without the generated module. Prints milliseconds as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from anylayer.layer import load_layers
from benchmarks.runners import shortest

ROOT = Path(__file__).parent.parent.parent
TOLERANCE = 1e-5


def call_of(path: Path, names: list[str], outputs: list[str] | None, run: Callable[..., Any]) -> Callable[[], Any]:
    """Return a function that runs an ONNX model with the inputs that are set."""
    net = cv2.dnn.readNetFromONNX(str(path))
    for name, x in zip(names, inputs):
        net.setInput(x, name)
    return lambda: run(net, outputs)


def error_of(found: list[Any], want: list[np.ndarray]) -> float:
    """Return the largest difference, relative to the largest value."""
    return max(
        float(np.abs(np.asarray(g).reshape(w.shape) - w).max() / np.abs(w).max()) for g, w in zip(found, want)
    )


folder = Path(sys.argv[1])
sys.path.insert(0, str(folder / "project"))
import numpy_layers  # noqa: E402 (its folder is an argument)

cv2.setNumThreads(1)
numpy_layers.register("numpy")
files = [*(ROOT / "examples/layers").glob("*.py"), ROOT / "benchmarks/elementwise_layers.py"]
classes = {name: found.cls for path in files for name, found in load_layers([path]).items()}
data = np.load(folder / "project/test_data.npz")
times: dict[str, dict[str, float]] = {}
for i, case in enumerate(json.loads((folder / "cases.json").read_text())):
    type_, names = case["type"], [f"x{k}" for k in range(case["inputs"])]
    inputs = [data[f"case_{i}_input_{k}"] for k in range(case["inputs"])]
    want = [data[f"case_{i}_output_{k}"] for k in range(case["outputs"])]
    outputs = [f"y{k}" for k in range(case["outputs"])]
    layer = classes[type_](case["params"], [np.array(b, np.float32) for b in case["blobs"]])
    layer.getMemoryShapes([list(x.shape) for x in inputs])
    cv2.dnn_registerLayer(f"plain.{type_}", classes[type_])
    calls: dict[str, Callable[[], Any]] = {
        "NumPy": lambda layer=layer, inputs=inputs: [np.ascontiguousarray(y) for y in layer.forward(inputs)],
        "generated": call_of(folder / f"project/case_{i}.onnx", names, outputs, numpy_layers.forward),
        "loops": call_of(folder / f"plain_{i}.onnx", names, outputs, lambda net, outputs: net.forward(outputs)),
    }
    if case["own"] == ["x"]:
        try:
            own = call_of(folder / f"own_{type_}.onnx", ["x"], None, lambda net, _: [net.forward()])
            if error_of(own(), want) <= TOLERANCE:
                calls["own"] = own
        except (cv2.error, ValueError):
            pass  # this version of OpenCV has no such operator
    for kind, call in calls.items():
        error = error_of(call(), want)
        if not error <= TOLERANCE:
            raise SystemExit(f"{type_}, {kind}: the largest difference from NumPy is {error:.1e}")
    times[type_] = shortest(calls)
print(json.dumps(times))
