"""Print what int8 costs and saves: `python -m benchmarks.int8`.

The networks are those of the reference data. They are calibrated on variants of their golden input, mirrored and
shifted, and compared on the golden input itself. Float32 and int8 take turns on the same inputs, on one thread, so
that other programs disturb them little; a figure is the fastest turn.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import openvino
from tools.reference import REFERENCE

import anylayer
from anylayer.errors import ConversionError

MODELS = REFERENCE / "models"
TRAINED = {
    "mtcnn_det1": "fullimage/input_data.npy",
    "mtcnn_det2": "batch6/input_data.npy",
    "ultraface_RFB-320": "input_input.npy",
}
RANDOM = {
    "lenet": "input_data.npy",
    "squeezenet_v1.1": "input_data.npy",
    "shufflenet_v1_g3": "input_data.npy",
    "mobilenet_ssd": "input_data.npy",
}
"""Networks whose weights are random: only their times are those of real networks."""
TURNS = 30
HEAD = ("network", "size", "largest error", "ORT float32", "ORT int8", "OV float32", "OV bfloat16", "OV int8")
Call = Callable[[], Any]


def shifted(x: Any, count: int = 16) -> list[Any]:
    """Return variants of an input (N, C, H, W): mirrored, shifted, darker and lighter."""
    random = np.random.default_rng(0)
    done = []
    for i in range(count):
        moved = np.roll(x, (random.integers(-9, 10), random.integers(-9, 10)), (2, 3)) * random.uniform(0.7, 1.1)
        done.append(np.ascontiguousarray(moved[..., :: -1 if i % 2 else 1], dtype=np.float32))
    return done


def on_onnxruntime(path: Path, feed: dict[str, Any]) -> Call:
    """Return a call of an ONNX file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feed)


def on_openvino(path: Path, feed: dict[str, Any], precision: str) -> Call:
    """Return a call of an IR."""
    config = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": 1}
    request = openvino.Core().compile_model(str(path), "CPU", config).create_infer_request()
    return lambda: request.infer(feed)


def fastest(calls: dict[str, Call]) -> dict[str, float]:
    """Return the milliseconds of each call. The calls take turns."""
    times = dict.fromkeys(calls, float("inf"))
    for _ in range(TURNS):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name] = min(times[name], 1e3 * (time.perf_counter() - start))
    return times


def measure(name: str, file: str, folder: Path) -> list[str]:
    """Return the row of a network."""
    net = anylayer.read(MODELS / name / "deploy.prototxt", MODELS / name / "weights.caffemodel")
    x = np.load(MODELS / name / file).astype(np.float32)
    (key,) = net.network.inputs
    shapes = {key: x.shape}
    written: dict[str, Path] = {}
    error = 0.0
    for suffix in ("onnx", "xml"):
        net.write(folder / f"{name}.{suffix}", shapes=shapes, verify=False)
        path = folder / f"{name}_int8.{suffix}"
        try:
            done = net.write(path, shapes=shapes, precision="int8", calibrate=shifted(x), verify={key: x})
        except ConversionError as refused:
            return [name, f"refused: {str(refused).partition(': ')[2]}", *[""] * 6]
        error = max([error, *(c.error / c.scale for c in done.checks if np.isfinite(c.tolerance))])
        written[suffix] = path
    feed = {key: x}
    plain = folder / f"{name}.onnx"
    times = fastest(
        {
            "ort": on_onnxruntime(plain, feed),
            "ort8": on_onnxruntime(written["onnx"], feed),
            "ov": on_openvino(folder / f"{name}.xml", feed, "f32"),
            "ov16": on_openvino(folder / f"{name}.xml", feed, "bf16"),
            "ov8": on_openvino(written["xml"], feed, "f32"),
        }
    )
    size = written["onnx"].stat().st_size / plain.stat().st_size
    return [name, f"{size:.0%}", f"{error:.3f}" if error else "-", *(f"{ms:.2f} ms" for ms in times.values())]


def main(names: list[str]) -> None:
    """Print the table in Markdown, for all networks or those that are named."""
    print(f"| {' | '.join(HEAD)} |\n| :-- | {' | '.join(['--:'] * (len(HEAD) - 1))} |")
    with tempfile.TemporaryDirectory() as folder:
        for name, file in {**TRAINED, **RANDOM}.items():
            if not names or name in names:
                print(f"| {' | '.join(measure(name, file, Path(folder)))} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
