"""Measure large files, from the caffemodel to the first frame, each time in a new process."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import caffemodel
from benchmarks.loading_once import ENGINES
from benchmarks.processes import ROOT
from benchmarks.prototxt import Prototxt, Word
from benchmarks.setup import TOLERANCE, Row, Setup, difference

PART = "loading"
RUNS = 3
VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
Weights = list[tuple[str, str, list[tuple[int, ...]]]]


def vgg16() -> tuple[str, Weights, tuple[int, ...]]:
    """Return VGG-16 (arXiv 1409.1556) without its softmax: the text, the shapes of the weights, the shape of the
    input.
    """
    net, shapes = Prototxt("vgg16"), []
    x, channels = net.input("data", (1, 3, 224, 224)), 3
    for stage, sizes in enumerate(VGG16, 1):
        for number, out in enumerate(sizes, 1):
            name = f"conv{stage}_{number}"
            window = {"num_output": out, "pad": 1, "kernel_size": 3}
            x = net.layer(name, "Convolution", x, convolution_param=window)
            net.layer(f"relu{stage}_{number}", "ReLU", x, [x])
            shapes.append((name, "Convolution", [(out, channels, 3, 3), (out,)]))
            channels = out
        window = {"pool": Word("MAX"), "kernel_size": 2, "stride": 2}
        x = net.layer(f"pool{stage}", "Pooling", x, pooling_param=window)
    shapes += _connected(net, x, 25088, (4096, 4096, 1000))
    return net.text(), shapes, (1, 3, 224, 224)


def huge() -> tuple[str, Weights, tuple[int, ...]]:
    """Return fully connected layers of 2.7 GB, one of them larger than 1.6 GB."""
    net = Prototxt("huge")
    shapes = _connected(net, net.input("data", (1, 512, 7, 7)), 25088, (16384, 16384, 1000))
    return net.text(), shapes, (1, 512, 7, 7)


def _connected(net: Prototxt, x: str, count: int, sizes: Sequence[int]) -> Weights:
    shapes: Weights = []
    for number, out in enumerate(sizes, 6):
        name = f"fc{number}"
        x = net.layer(name, "InnerProduct", x, inner_product_param={"num_output": out})
        if number < 5 + len(sizes):
            net.layer(f"relu{number}", "ReLU", x, [x])
        shapes.append((name, "InnerProduct", [(out, count), (out,)]))
        count = out
    return shapes


FILES = {"vgg16_553MB": vgg16, "connected_2.7GB": huge}


def run(setup: Setup) -> Iterator[Row]:
    """Yield a row for each file. The files are in the benchmark's temporary folder and are removed afterwards."""
    for name, make in FILES.items():
        if setup.wants(name):
            folder = setup.room(name)
            try:
                yield _row(setup, name, folder, *make())
            finally:
                shutil.rmtree(folder)


def write_weights(path: Path, name: str, shapes: Weights) -> None:
    """Write seeded noise, scaled so that values neither grow nor vanish. It repeats a block whose length divides
    no row.
    """
    noise = np.random.default_rng(0).standard_normal(4_194_301, np.float32)

    def blob(shape: tuple[int, ...]) -> np.ndarray:
        values = np.resize(noise, shape)
        values *= np.float32(np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1)
        return values

    layers = ((layer, kind, [blob(shape) for shape in blobs]) for layer, kind, blobs in shapes)
    caffemodel.write(path, name, layers)


def _row(setup: Setup, name: str, folder: Path, text: str, shapes: Weights, shape: tuple[int, ...]) -> Row:
    (folder / "deploy.prototxt").write_text(text)
    write_weights(folder / "weights.caffemodel", name, shapes)
    size = (folder / "weights.caffemodel").stat().st_size
    np.save(folder / "input.npy", np.random.default_rng(1).standard_normal(shape, np.float32))
    columns: dict[str, dict[str, Any]] = {}
    _call(setup.python, "export", folder, setup.threads)
    runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in ENGINES}
    for number in range(RUNS):
        for engine in list(runs)[number % len(runs) :] + list(runs)[: number % len(runs)]:
            if "error" not in columns.get(engine, {}):
                columns[engine] = _turn(setup, engine, folder, runs[engine])
    reference = folder / "output_anylayer_onnxruntime.npy"
    for engine, column in columns.items():
        output = folder / f"output_{engine.replace(' ', '_')}.npy"
        if "error" not in column and reference.exists():
            off = difference({"y": np.load(output)}, {"y": np.load(reference)})
            column.update({"errors": {"output": off}} if off <= TOLERANCE else {"error": f"differs: {off:.1e}"})
    return {"part": PART, "name": name, "columns": columns, "bytes": size}


def _turn(setup: Setup, engine: str, folder: Path, runs: list[dict[str, Any]]) -> dict[str, Any]:
    peer = engine == "opencv"
    if peer and setup.peers is None:
        return {"error": "peers absent"}
    python = setup.peers if peer and setup.peers else setup.python
    before = setup.guard.probe()
    found = _call(python, engine, folder, setup.threads)
    if "error" in found:
        return found
    runs.append({**found, "latency_ns": before.latency_ns})
    return {"runs": runs, **middle(runs)}


def middle(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return, for several runs, the median seconds of each step and in total, and the median memory owned at the
    end.
    """
    steps = [step for step in runs[0]["seconds"] if step != "ready"]
    seconds = {step: statistics.median(r["seconds"][step] for r in runs) for step in steps}
    before_frames = [step for step in steps if step != "second frame"]
    return {
        "steps": seconds,
        "seconds": statistics.median(sum(r["seconds"][step] for step in before_frames) for r in runs),
        "anonymous": statistics.median(r["memory"]["first frame"].get("anonymous", 0) for r in runs),
        "private_dirty": statistics.median(r["memory"]["first frame"].get("private_dirty", 0) for r in runs),
        "peak": statistics.median(r["peak"] for r in runs),
    }


def _call(python: str, engine: str, folder: Path, threads: int) -> dict[str, Any]:
    command = [python, "-m", "benchmarks.loading_once", engine, str(folder), str(threads)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"ended with {done.returncode}"]
        return {"error": last[0]}
    found: dict[str, Any] = json.loads(done.stdout or "{}")
    return found
