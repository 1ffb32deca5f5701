"""python -m benchmarks.native_layers: what a layer in C++ in the middle of a network costs besides its kernel.

The network is Convolution, ReLU, Double (examples/native/double.cpp), Convolution, ReLU. Columns, in microseconds:

    whole     the network with the C++ layer, called through anylayer
    alone     the same network without the layer, called through anylayer
    kernel    the layer's function in the library, called with the same arrays and nothing else
    cost      whole - alone - kernel
    cut       the two parts of the network, each called through the engine, less `alone`: what the cut in the graph
              costs whoever computes the layer

All are called in turns; a figure is the median over the rounds of each round's fastest call.
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
from anylayer.compile.plan import GraphStep, KernelStep
from anylayer.engines import load_engine
from anylayer.kernels.compiler import Build, compiler
from anylayer.optimize.simplify import simplify
from anylayer.runtime.model import Model
from benchmarks.prototxt import Prototxt

ROOT = Path(__file__).parent.parent
SHAPES = ((1, 4, 8, 8), (1, 16, 32, 32), (1, 32, 56, 56))
ENGINES = ("onnxruntime", "openvino")
TURN_SECONDS = 0.03


def network(folder: Path, shape: tuple[int, ...], *, native: bool) -> anylayer.Net:
    """Return the network with or without the C++ layer, with random weights."""
    net = Prototxt("native" if native else "alone")
    channels = shape[1]
    value = net.input("x", shape)
    for name in ("first", "second"):
        value = net.layer(
            name, "Convolution", value, convolution_param={"num_output": channels, "kernel_size": 3, "pad": 1}
        )
        value = net.layer(f"{name}_relu", "ReLU", value)
        if native and name == "first":
            value = net.layer("double", "Double", value)
    path = folder / f"{'native' if native else 'alone'}_{'x'.join(map(str, shape))}.prototxt"
    path.write_text(net.text())
    return anylayer.read(path, layers=[folder / "libdouble.so"] if native else []).fill(0)


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


def kernel_call(model: Model, array: Any) -> Callable[[], Any]:
    """Return a call of the layer's function in the library, with arrays that are bound once."""
    assert model.plan is not None
    (step,) = [s for s in model.plan.steps if isinstance(s, KernelStep)]
    program: Any = step.kernel.program(1)
    out = np.empty_like(array)
    program([array], [out])  # the first call checks the layer; the second binds the arrays
    program([array], [out])
    function, (frame,) = program._function, program._frames

    def call() -> Any:
        return function(*frame.args), out  # `out` has to stay alive

    return call


def parts_call(model: Model, engine: str, x: Any) -> Callable[[], Any]:
    """Return a call of both graphs on the engine, one after the other."""
    assert model.plan is not None
    steps = [s for s in model.plan.steps if isinstance(s, GraphStep)]
    first, second = (load_engine(engine).compile(simplify(s.graph, engine), 1) for s in steps)
    return lambda: second(first([x]))


def row(folder: Path, engine: str, shape: tuple[int, ...], rounds: int) -> dict[str, float]:
    """Return the figures of one engine and shape, in microseconds."""
    native, alone = (network(folder, shape, native=n).compile(engine, threads=1) for n in (True, False))
    x = np.random.default_rng(0).random(shape, np.float32)
    calls = {
        "whole": lambda: native(x),
        "alone": lambda: alone(x),
        "kernel": kernel_call(native, x),
        "parts": parts_call(native, engine, x),
    }
    for call in calls.values():
        call()
    found = timed(calls, rounds)
    found["cost"] = found["whole"] - found["alone"] - found["kernel"]
    found["cut"] = found.pop("parts") - found["alone"]
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native_layers")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="turns of each call [15]")
    rounds = parser.parse_args().rounds
    columns = ("whole", "alone", "kernel", "cost", "cut")
    print(f"{'engine':12} {'shape':16}" + "".join(f"{name:>10}" for name in columns))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Build([ROOT / "examples/native/double.cpp"], folder / "libdouble.so", compiler()).run()
        for engine in ENGINES:
            for shape in SHAPES:
                found = row(folder, engine, shape, rounds)
                sizes = "x".join(map(str, shape))
                print(f"{engine:12} {sizes:16}" + "".join(f"{found[c]:10.1f}" for c in columns), flush=True)


if __name__ == "__main__":
    main()
