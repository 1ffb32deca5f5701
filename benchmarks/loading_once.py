"""Load a large network once, in a process of its own. Print the seconds of each step and the memory as a line of
JSON.

    python -m benchmarks.loading_once ENGINE FOLDER THREADS

FOLDER has deploy.prototxt, weights.caffemodel and, for engines that are called directly, network.onnx with its
weights beside it. The engine's packages are imported before the clock starts. ENGINE "export" writes network.onnx.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Steps = Iterator[tuple[str, Any]]
NAME = "data"


def anylayer_on(engine: str) -> Callable[[Path, int, np.ndarray], Steps]:
    """Return the steps of anylayer on one engine."""

    def steps(folder: Path, threads: int, x: np.ndarray) -> Steps:
        import onnx  # noqa: F401 (loaded before the time is measured)

        import anylayer
        import anylayer.readers.caffe
        import anylayer.runtime.model
        from anylayer.engines import load_engine

        load_engine(engine)
        yield "ready", None
        net = anylayer.read(folder / "deploy.prototxt", folder / "weights.caffemodel")
        yield "read", None
        model = net.compile(engine, threads=threads)
        yield "compile", None
        yield "first frame", next(iter(model({NAME: x}).values()))
        yield "second frame", next(iter(model({NAME: x}).values()))

    return steps


def onnxruntime(folder: Path, threads: int, x: np.ndarray) -> Steps:
    """Load with ONNX Runtime from external data, without prepacking, which is its fastest way to load."""
    import onnxruntime as ort

    yield "ready", None
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_prepacking", "1")
    session = ort.InferenceSession(str(folder / "network.onnx"), options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x}
    yield "compile", None
    yield "first frame", session.run(None, feed)[0]
    yield "second frame", session.run(None, feed)[0]


def openvino(folder: Path, threads: int, x: np.ndarray) -> Steps:
    """Load with OpenVINO from external data."""
    import openvino as ov

    core = ov.Core()
    yield "ready", None
    config = {
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
    }
    model = core.read_model(str(folder / "network.onnx"))
    yield "read", None
    request = core.compile_model(model, "CPU", config).create_infer_request()
    yield "compile", None
    yield "first frame", np.array(request.infer([x])[0])
    yield "second frame", np.array(request.infer([x])[0])


def opencv(folder: Path, threads: int, x: np.ndarray) -> Steps:
    """Load with OpenCV's Caffe importer, which allocates in its first frame."""
    import cv2

    cv2.setNumThreads(threads)
    yield "ready", None
    net = cv2.dnn.readNetFromCaffe(str(folder / "deploy.prototxt"), str(folder / "weights.caffemodel"))
    yield "read", None
    net.setInput(x)
    yield "first frame", net.forward()
    net.setInput(x)
    yield "second frame", net.forward()


ENGINES = {
    "anylayer onnxruntime": anylayer_on("onnxruntime"),
    "anylayer openvino": anylayer_on("openvino"),
    "anylayer ncnn": anylayer_on("ncnn"),
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "opencv": opencv,
}


def memory() -> dict[str, int]:
    """Return the memory that this process owns, in bytes (empty if the system does not report it)."""
    path = Path("/proc/self/smaps_rollup")
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text().splitlines()[1:]:
        name, _, value = line.partition(":")
        if name in ("Rss", "Anonymous", "Private_Dirty"):
            found[name.lower()] = int(value.split()[0]) * 1024
    return found


def peak() -> int:
    """Return the largest resident size so far in bytes, including pages of mapped files."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def once(engine: str, folder: Path, threads: int) -> dict[str, Any]:
    """Run the steps of an engine."""
    x = np.load(folder / "input.npy")
    seconds: dict[str, float] = {}
    at: dict[str, dict[str, int]] = {}
    output = None
    start = time.perf_counter()
    for step, value in ENGINES[engine](folder, threads, x):
        seconds[step] = time.perf_counter() - start
        at[step] = memory()
        output = value if value is not None else output
        start = time.perf_counter()
    np.save(folder / f"output_{engine.replace(' ', '_')}.npy", output)
    return {"seconds": seconds, "memory": at, "peak": peak()}


def export(folder: Path) -> None:
    """Write network.onnx with its weights beside it, for the engines that are called directly."""
    import anylayer
    from anylayer.compile.plan import make_plan
    from anylayer.writers._onnx_model import to_onnx

    net = anylayer.read(folder / "deploy.prototxt", folder / "weights.caffemodel")
    network = net.network
    graph = make_plan(network, net.definitions, network.inputs, network.outputs).steps[0].graph
    with (folder / "network.weights").open("wb") as file:

        def external(name: str, value: Any) -> tuple[str, int] | None:
            if value.const.nbytes < 1 << 16:
                return None
            file.write(bytes(-file.tell() % 4096))
            offset = file.tell()
            np.ascontiguousarray(value.const).tofile(file)
            return "network.weights", offset

        model = to_onnx(graph, external=external)
    (folder / "network.onnx").write_bytes(model.SerializeToString())
    os.sync()  # pages that are not yet on the disk would count as owned by the process that maps them


if __name__ == "__main__":
    _, name, place, count = sys.argv
    if name == "export":
        export(Path(place))
    else:
        print(json.dumps(once(name, Path(place), int(count))))
