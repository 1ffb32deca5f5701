"""How general, exact and fast generated loops are: `python -m benchmarks.loops` prints it as a table.

Each row compiles the C++ function of a class of examples/layers (one thread, -O3), runs it at the sizes of a real
network, and compares it with the class in NumPy. `--only NAME` chooses rows. It needs a C++ compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from tests.loops.harness import arguments, build
from tests.test_examples_layers import FOLDER, node_of

from anylayer.layer import load_layers
from anylayer.layer.bound import Bound, bind
from anylayer.loops import Code, Opened, lower, opened, to_cpp
from anylayer.network import Array, TensorType

_RANDOM = np.random.default_rng(0)
_RUNS = 15


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
}


def layer_of(name: str, folder: Path) -> Bound:
    """Return the class of a layer for its inputs."""
    params, dialect, inputs = LAYERS[name]
    node = node_of(folder, name, params, dialect, inputs)
    if name == "ResizeBilinear":  # a layer of TensorFlow, whose size is a blob
        node.params, node.blobs = {"align_corners": False}, [np.array([[65, 65]])]
    found = next(d for p in FOLDER.glob("*.py") for t, d in load_layers([p]).items() if t == name)
    return bind(node, [found], [TensorType.of(x.shape) for x in inputs], dialect)


def milliseconds(function: Callable[[], Any]) -> float:
    """Return the shortest time of a call."""
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def described(source: Opened, code: Code) -> str:
    """Return which sizes a function works for."""
    fixed = [f"{i}.{a} = {e}" for i, v in enumerate(code.inputs) for a, e in enumerate(v.shape) if not e.symbols]
    several = [f"{i}.{a} = {k}n" for _, (i, a, k) in source.sizes.items() if k > 1]
    limits = [str(g) for g in source.guards]
    return ", ".join([*fixed, *several, *limits]) or "any"


def row(name: str, folder: Path) -> str:
    """Return the row of a layer."""
    layer, inputs = layer_of(name, folder), LAYERS[name][2]
    source = opened(layer)
    code = to_cpp(lower(source), "layer")
    free = to_cpp(lower(opened(layer, free_params=True)), "layer").params
    library: ctypes.CDLL = build([code], folder, ["-O3"])
    pointers, sizes, outputs = arguments(code, inputs, source.traced)
    run = milliseconds(lambda: library.c_layer(pointers, sizes))
    want = [np.asarray(y) for y in layer(inputs)]
    numpy = milliseconds(lambda: layer(inputs))
    error = max(float(np.abs(g - w).max() / np.abs(w).max()) for g, w in zip(outputs, want))
    read = ", ".join(f"`{p.name}`" for p in free) or "-"
    return f"| {name} | {described(source, code)} | {read} | {error:.1e} | {numpy:.2f} | {run:.2f} |"


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loops", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="a part of the name of a row; may be repeated")
    only = parser.parse_args(words).only
    print("| layer | sizes (input.axis) | params that are read | error | NumPy, ms | C++, ms |")
    print("|---|---|---|---:|---:|---:|", flush=True)
    for name in LAYERS:
        if not only or any(part in name for part in only):
            with TemporaryDirectory() as folder:
                print(row(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
