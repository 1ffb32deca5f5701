"""python -m benchmarks.opencl_layers: an OpenCL layer through anylayer against the same program through pyopencl.

Each network is one layer, ReLU or Interp of examples/opencl. Columns, in microseconds:

    anylayer  the network, called through anylayer: arrays in, arrays out
    by hand   the program that anylayer compiles, called with pyopencl as its documentation does: buffers and
              kernel are made once; each call copies the input, runs the kernel and copies the output
    ratio     anylayer / by hand
    device    the kernel itself, as OpenCL's event states it, in the last call

The two are called in turns; a figure is the median over the rounds of each round's fastest call.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import anylayer
from anylayer.compile.plan import KernelStep
from anylayer.kernels.opencl.layer import OpenCLLayer
from anylayer.runtime.model import Model
from benchmarks.prototxt import Prototxt

KERNELS = Path(__file__).parent.parent / "examples/opencl/kernels.xml"
TURN_SECONDS = 0.03
SHAPES = ((1, 4, 8, 8), (1, 96, 55, 55), (8, 96, 55, 55))


def timed(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return microseconds of each call: the median over the rounds of the fastest call of a turn."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            best = float("inf")
            stop = time.perf_counter() + TURN_SECONDS
            while time.perf_counter() < stop:
                start = time.perf_counter()
                call()
                best = min(best, time.perf_counter() - start)
            found[name].append(best * 1e6)
    return {name: statistics.median(times) for name, times in found.items()}


def network(folder: Path, type_: str, shape: tuple[int, ...]) -> anylayer.Net:
    """Return a network of one layer. Interp doubles height and width."""
    net = Prototxt(type_)
    params: dict[str, Any] = {"relu_param": {"negative_slope": 0.1}}
    if type_ == "Interp":
        params = {"interp_param": {"height": 2 * shape[2], "width": 2 * shape[3]}}
    net.layer("it", type_, net.input("x", shape), **params)
    path = folder / f"{type_}_{'x'.join(map(str, shape))}.prototxt"
    path.write_text(net.text())
    return anylayer.read(path, kernels=KERNELS)


def layer_of(model: Model) -> OpenCLLayer:
    """Return the OpenCL layer of a network of one layer."""
    assert model.plan is not None
    (step,) = [s for s in model.plan.steps if isinstance(s, KernelStep)]
    assert isinstance(step.kernel, OpenCLLayer)
    return step.kernel


def by_hand(layer: OpenCLLayer, x: Any) -> Callable[[], Any]:
    """Return a call of a layer's program through pyopencl alone."""
    import pyopencl as cl

    device = layer.device()
    program = cl.Program(device.context, layer.text.without_half()).build(list(layer.layer.options))
    queue = cl.CommandQueue(device.context)
    kernel = cl.Kernel(program, layer.layer.entry)
    kind = layer.outputs[0]
    flags = cl.mem_flags
    given = cl.Buffer(device.context, flags.READ_ONLY, x.nbytes)
    made = cl.Buffer(device.context, flags.WRITE_ONLY, np.empty(kind.shape, kind.dtype).nbytes)

    def call() -> Any:
        y = np.empty(kind.shape, kind.dtype)
        cl.enqueue_copy(queue, given, x, is_blocking=False)
        kernel(queue, layer.whole, layer.local or None, given, made)
        cl.enqueue_copy(queue, y, made)
        return y

    return call


def row(folder: Path, type_: str, shape: tuple[int, ...], rounds: int) -> dict[str, float]:
    """Return the figures of one layer and shape, in microseconds."""
    model = network(folder, type_, shape).compile("onnxruntime")
    layer = layer_of(model)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    hand = by_hand(layer, x)
    np.testing.assert_array_equal(model(x)["it"], hand())
    found = timed({"anylayer": lambda: model(x), "by hand": hand}, rounds)
    found["ratio"] = found["anylayer"] / found["by hand"]
    program = layer.program()
    program([x])
    program([x])
    found["device"] = program.device_seconds * 1e6
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.opencl_layers")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="turns of each call [15]")
    rounds = parser.parse_args().rounds
    print(f"{'layer':8} {'input':16} {'anylayer':>10} {'by hand':>10} {'ratio':>7} {'device':>10}")
    with tempfile.TemporaryDirectory() as name:
        for type_ in ("ReLU", "Interp"):
            for shape in SHAPES:
                found = row(Path(name), type_, shape, rounds)
                times = f"{found['anylayer']:10.1f} {found['by hand']:10.1f} {found['ratio']:7.2f}"
                print(f"{type_:8} {'x'.join(map(str, shape)):16} {times} {found['device']:10.1f}", flush=True)


if __name__ == "__main__":
    main()
