"""python -m benchmarks.pycaffe [PROTOTXT...]: what `net.forward()` of anylayer.caffe costs beside the model.

Columns, in microseconds of CPU time, which other programs on the machine do not change: `model`, a call of the
compiled model; `forward`, a call of net.forward() on the same engine, with one thread and the same weights;
`extra`, their difference; `ratio`. All are called in turns; a figure is the lowest of the rounds. Without
arguments the networks of the reference data (models) are measured that state the shapes of their inputs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tools.reference import REFERENCE

import anylayer
import anylayer.caffe as caffe

MODELS = REFERENCE / "models"
TURN_SECONDS = 0.05


def cpu_seconds(call: Callable[[], Any], count: int) -> float:
    """Return the CPU time of one of `count` calls."""
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


def measure(path: Path, engine: str, rounds: int) -> tuple[float, float]:
    """Return the seconds of a call of the model, and of a call of forward."""
    random = np.random.default_rng(0)
    net = caffe.Net(path, caffe.TEST, engine=engine, threads=1)
    for blobs in net.params.values():
        for blob in blobs:
            blob.data[...] = random.uniform(0.01, 0.1, blob.shape)
    inputs = {name: random.random(net.blobs[name].shape, np.float32) for name in net.inputs}
    for name, array in inputs.items():
        net.blobs[name].data[...] = array
    model = net.compile(engine, threads=1)
    wanted, found = model(inputs), net.forward()
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-4, err_msg=f"{path}: {name}")
    count = max(3, int(TURN_SECONDS / cpu_seconds(lambda: model(inputs), 3)))
    turns = [(cpu_seconds(lambda: model(inputs), count), cpu_seconds(net.forward, count)) for _ in range(rounds)]
    return min(one for one, _ in turns), min(other for _, other in turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", type=Path, help="prototxt files")
    parser.add_argument("--engine", default="onnxruntime")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    paths = options.networks or [
        path
        for path in sorted(MODELS.glob("*/deploy.prototxt"))
        if all(anylayer.read(path).inputs.values()) and path.parent.name != "hed"  # takes seconds
    ]
    print(f"{'network':24} {'model':>10} {'forward':>10} {'extra':>8} {'ratio':>6}")
    for path in paths:
        model, forward = (seconds * 1e6 for seconds in measure(path, options.engine, options.rounds))
        name = path.parent.name if path.stem == "deploy" else path.stem
        print(
            f"{name[:24]:24} {model:10.1f} {forward:10.1f} {forward - model:8.1f} {forward / model:6.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
