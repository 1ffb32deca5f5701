"""How general, exact and fast generated loops are: `python -m benchmarks.loops` prints it as a table.

Each row compiles the C++ function of a class of examples/layers, or of a NumPy function, with the flags of engine
cpp. It runs on one thread at the sizes of a real network, in turn with NumPy and with the loops of
native/loops.cpp, which are written by hand and compiled with the same flags. `--only NAME` chooses rows;
`--openvino` compares Interp with OpenVINO's own operator, and `--bandwidth` an elementwise chain with a copy.
It needs a C++ compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from tests.loops.harness import arguments, build
from tests.test_examples_layers import FOLDER, node_of

import anylayer.ops as ops
from anylayer.engines import load_engine
from anylayer.engines.cpp import _flags as flags
from anylayer.graph import Graph
from anylayer.inspect.profile import measure_peaks
from anylayer.kernels.compiler import compiler
from anylayer.layer import Definition, load_layers
from anylayer.layer.bound import Bound, bind
from anylayer.layer.opencv import opencv_params
from anylayer.loops import CppFunction, Opened, lower, opened, to_cpp
from anylayer.network import Array, TensorType
from anylayer.tracing import trace

_RANDOM = np.random.default_rng(0)
_RUNS = 200
TOLERANCE = 1e-5
_LARGE = 1 << 24
"""The number of elements of an array that no cache holds."""
FLAGS = ["-O3", "-march=native", *flags()]
HAND = Path(__file__).parent / "native" / "loops.cpp"
FILES = [*FOLDER.glob("*.py"), Path(__file__).parent / "elementwise_layers.py"]


def noise(*shape: int) -> Array:
    """Return seeded noise."""
    return _RANDOM.standard_normal(shape).astype(np.float32)


def regions(count: int, size: int) -> Array:
    """Return regions (image, x1, y1, x2, y2) of a picture of this size."""
    corners = _RANDOM.uniform(0, size / 2, (count, 4))
    corners[:, 2:] += corners[:, :2]
    return np.concatenate([np.zeros((count, 1)), corners], 1).astype(np.float32)


THETA = np.array([[0.8, 0.2, 0.1, -0.3, 0.9, 0.05]], np.float32)
LAYERS: dict[str, tuple[str, str | None, list[Array]]] = {
    "Interp": ("interp_param { height: 129 width: 129 }", None, [noise(1, 64, 65, 65)]),
    "Reverse": ("reverse_param { axis: 3 }", None, [noise(1, 64, 80, 80)]),
    "Upsample": ("upsample_param { scale: 2 stride: 2 }", "ascend", [noise(1, 64, 40, 40)]),
    "Normalize": ("norm_param { across_spatial: false }", None, [noise(1, 256, 38, 38)]),
    "Reorg": ("reorg_param { stride: 2 }", "ascend", [noise(1, 64, 26, 26)]),
    "ROIAlign": (
        "roi_align_param { pooled_h: 7 pooled_w: 7 spatial_scale: 0.25 sampling_ratio: 2 }",
        None,
        [noise(1, 64, 50, 50), regions(50, 180)],
    ),
    "ShuffleChannel": ("shuffle_channel_param { group: 3 }", None, [noise(1, 240, 28, 28)]),
    "Yolo": ('yolo_param { boxes: 3 classes: 80 yolo_version: "V3" }', None, [noise(1, 255, 26, 26)]),
    "SpatialTransformer": ("st_param { output_H: 64 output_W: 64 }", None, [noise(1, 16, 80, 80), THETA]),
    "Crop": ("", None, [noise(1, 64, 90, 90), noise(1, 1, 64, 64)]),
    "ResizeBilinear": ("", None, [noise(1, 64, 33, 33)]),
    "Chain": ("", None, [noise(1, 64, 128, 128)]),
    "Logistic": ("", None, [noise(1, 64, 128, 128)]),
}


CONSTANTS: dict[str, tuple[str, str | None, list[Array]]] = {
    "PriorBox": (
        "prior_box_param { min_size: 60 max_size: 111 aspect_ratio: 2 aspect_ratio: 3 flip: true clip: false"
        " variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 step: 16 offset: 0.5 }",
        None,
        [noise(1, 8, 19, 19), noise(1, 3, 300, 300)],
    ),
}
"""Layers whose outputs depend on sizes only. In the projects for all targets but dv they are constants."""


def definition_of(name: str) -> Definition:
    """Return the definition of a layer type."""
    return next(d for p in FILES for t, d in load_layers([p]).items() if t == name)


def layer_of(name: str, folder: Path) -> Bound:
    """Return the class of a layer for its inputs."""
    params, dialect, inputs = {**LAYERS, **CONSTANTS}[name]
    node = node_of(folder, name, params, dialect, inputs)
    if name == "ResizeBilinear":  # a layer of TensorFlow, whose size is a blob
        node.params, node.blobs = {"align_corners": False}, [np.array([[65, 65]])]
    return bind(node, [definition_of(name)], [TensorType.of(x.shape) for x in inputs], dialect)


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Array]] = {
    "softmax": (lambda x: ops.softmax(x, axis=1), noise(64, 1000)),
    "top_k": (lambda x: ops.top_k(x, 100, axis=1)[0], noise(8, 8732)),
}
"""Functions that are measured without a layer."""


def best_milliseconds(*functions: Callable[[], Any]) -> list[float]:
    """Return the shortest time of a call of each function. They are called in turn."""
    best = [float("inf")] * len(functions)
    for _ in range(_RUNS):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[i] = min(best[i], 1e3 * (time.perf_counter() - start))
    return best


def described(source: Opened, code: CppFunction) -> str:
    """Return which sizes a function works for."""
    fixed = [f"{i}.{a} = {e}" for i, v in enumerate(code.inputs) for a, e in enumerate(v.shape) if not e.symbols]
    several = [f"{i}.{a} = {k}n" for _, (i, a, k) in source.sizes.items() if k > 1]
    limits = [str(g) for g in source.guards]
    return ", ".join([*fixed, *several, *limits]) or "any"


def hand_written(name: str, inputs: Sequence[Array], outputs: Sequence[Array], folder: Path) -> Any:
    """Return a call of the function of native/loops.cpp for a row, or None where there is none."""
    if f"void hand_{name}(" not in HAND.read_text():
        return None
    library = folder / "hand.so"
    words = [*compiler(), "-std=c++11", *FLAGS, "-shared", "-fPIC", str(HAND), "-o", str(library)]
    subprocess.run(words, check=True)
    arrays = [*inputs, *outputs]
    sizes = [d for array in arrays for d in array.shape]
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    numbers = (ctypes.c_int64 * len(sizes))(*sizes)
    function = ctypes.CDLL(str(library))[f"hand_{name}"]
    return lambda: function(pointers, numbers)


def row(name: str, folder: Path) -> str:
    """Return the row of a layer or a function."""
    if name in FUNCTIONS:
        function, x = FUNCTIONS[name]
        inputs, read, decide, numpy = [x], "-", "-", lambda: [function(x)]
        source = Opened(trace(lambda arrays: [function(arrays[0])], [TensorType.of(x.shape)]))
    else:
        layer, inputs = layer_of(name, folder), {**LAYERS, **CONSTANTS}[name][2]
        source = opened(layer)
        free = to_cpp(lower(opened(layer, free_params=True)), "layer").params
        names = list(dict.fromkeys(p.name for p in free))
        others = [name for name in opencv_params(layer.node.params, layer.node.defaults) if name not in names]
        read, decide = (", ".join(f"`{name}`" for name in several) or "-" for several in (names, others))
        numpy = partial(layer, inputs)
    code = to_cpp(lower(source), "layer")
    library: ctypes.CDLL = build([code], folder, FLAGS)
    pointers, sizes, outputs = arguments(code, inputs, source.traced)
    want = [np.asarray(y) for y in numpy()]
    results = [np.empty_like(y) for y in outputs]
    hand = hand_written(name, inputs, results, folder)
    calls = [lambda: library.c_layer(pointers, sizes), numpy, *([hand] if hand else [])]
    run, numpy_run, *hand_run = best_milliseconds(*calls)
    for found in (outputs, *([results] if hand else [])):
        error = max(float(np.abs(g - w).max() / np.abs(w).max()) for g, w in zip(found, want))
        if error > TOLERANCE:
            raise SystemExit(f"{name}: the largest difference from NumPy is {error:.1e}")
    error = max(float(np.abs(g - w).max() / np.abs(w).max()) for g, w in zip(outputs, want))
    which = "-" if name in FUNCTIONS else described(source, code)
    compared = f"{hand_run[0]:.3f} | {run / hand_run[0]:.2f}" if hand_run else "- | -"
    return f"| {name} | {which} | {read} | {decide} | {error:.1e} | {numpy_run:.3f} | {run:.3f} | {compared} |"


def interpolation(threads: int) -> str:
    """Return a line that compares Interp on the engine cpp with OpenVINO's Interpolate. Both run in turn."""
    x = LAYERS["Interp"][2][0]
    graph = Graph()
    graph.outputs = graph.emit(
        "Resize",
        [graph.input("x", x.shape, x.dtype), None, None, graph.constant(np.array([1, 64, 129, 129]))],
        [((1, 64, 129, 129), x.dtype)],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    )
    programs = [load_engine(name).compile(graph, threads) for name in ("cpp", "openvino")]
    first, second = (program([x])[0] for program in programs)
    error = float(np.abs(first - second).max() / np.abs(second).max())
    times = best_milliseconds(*(partial(program, [x]) for program in programs))
    return (
        f"Interp 64x65x65 to 129x129, threads: {threads}; engine cpp {times[0]:.3f} ms, OpenVINO's Interpolate "
        f"{times[1]:.3f} ms, ratio {times[0] / times[1]:.2f}, difference {error:.1e}"
    )


def bandwidth(threads: int) -> str:
    """Return a line that compares a chain of five elementwise operations on the engine cpp with copies of its
    array, and with the peak of `anylayer profile`."""
    x = np.ones(_LARGE, np.float32)
    chain = definition_of("Chain").cls({}, [])
    graph = trace(lambda arrays: chain.forward(arrays), [TensorType.of(x.shape)])
    program = load_engine("cpp").compile(graph, threads)
    y, part = np.empty_like(x), _LARGE // threads
    slices = [slice(part * i, part * (i + 1)) for i in range(threads)]
    with ThreadPoolExecutor(threads) as pool:

        def copy() -> list[None]:
            return list(pool.map(lambda part: np.copyto(y[part], x[part]), slices))

        times = best_milliseconds(lambda: program([x], [y]), copy)
    chained, copied = (2 * x.nbytes / 1e6 / t for t in times)
    peak = measure_peaks("onnxruntime", threads)
    return (
        f"chain of 5 operations on {x.nbytes >> 20} MiB, threads: {threads}; engine cpp {chained:.1f} GB/s, copy "
        f"{copied:.1f} GB/s, ratio {chained / copied:.2f}; the peak of profile ({peak.how}) "
        f"{peak.bytes / 1e9:.1f} GB/s"
    )


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loops", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="a part of the name of a row; may be repeated")
    parser.add_argument(
        "--openvino", action="store_true", help="compare Interp with OpenVINO's Interpolate instead"
    )
    parser.add_argument(
        "--bandwidth", action="store_true", help="compare an elementwise chain with a copy instead"
    )
    given = parser.parse_args(words)
    for compared in [interpolation] * given.openvino + [bandwidth] * given.bandwidth:
        for threads in (1, 2):
            print(compared(threads), flush=True)
    if given.openvino or given.bandwidth:
        return
    heads = (
        "sizes (input.axis)",
        "params that are read",
        "one kernel per value of",
        "error",
        "NumPy, ms",
        "C++, ms",
        "by hand, ms",
        "ratio",
    )
    print(f"| layer | {' | '.join(heads)} |")
    print("|---|---|---|---|---:|---:|---:|---:|---:|", flush=True)
    for name in (*LAYERS, *CONSTANTS, *FUNCTIONS):
        if not given.only or any(part in name for part in given.only):
            with TemporaryDirectory() as folder:
                print(row(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
