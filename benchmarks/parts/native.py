"""Measure layers in C++: one loop inside anylayer, OpenCV and OpenVINO, and the cost of a layer in the middle of a
network.

The C++ sources are in benchmarks/native. What cannot be built is left out, with the reason.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, save_model

from anylayer.errors import AnyLayerError
from anylayer.kernels.compiler import Build, compiler
from benchmarks.processes import ROOT
from benchmarks.prototxt import Prototxt
from benchmarks.setup import Field, Row, Setup, save_inputs

PART = "native"
SOURCES = ROOT / "benchmarks" / "native"
INTERPS = (((1, 64, 65, 65), (129, 129)), ((1, 21, 33, 33), (65, 65)), ((1, 3, 240, 320), (480, 640)))
"""Shapes of the input, and the height and width of the output."""
MIDDLES = ((1, 4, 8, 8), (1, 16, 32, 32), (1, 32, 56, 56))
ENGINES = ("onnxruntime", "openvino")
_LIMIT = 1e-6


class Absent(Exception):
    """Something that a library needs is not there. The message says what."""


def run(setup: Setup) -> Iterator[Row]:
    """Yield a row per size of Interp and number of threads, then one per engine and size of the network with a
    layer in its middle.
    """
    for shape, size in INTERPS:
        for threads in dict.fromkeys((1, setup.threads)):
            name = f"interp_{_text(shape)}_to_{_text(size)}_threads_{threads}"
            if setup.wants(name):
                with Field(setup, name) as field:
                    row = _interp(field, shape, size, threads)
                yield row
    for engine in ENGINES:
        for shape in MIDDLES:
            name = f"middle_{engine}_{_text(shape)}"
            if setup.wants(name):
                with Field(setup, name) as field:
                    row = _middle(field, engine, shape)
                yield row


def _text(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _interp(field: Field, shape: tuple[int, ...], size: tuple[int, int], threads: int) -> Row:
    """Return a row: the same loop in three hosts, each called as its user calls it, with the same compiler."""
    height, width = size
    path = save_inputs(field.folder / "inputs.npz", {"x": np.random.default_rng(0).random(shape, np.float32)})
    libraries = _built(
        field, {"anylayer": "interp_anylayer", "opencv": "interp_opencv", "openvino": "interp_openvino"}
    )
    for column, library in libraries.items():
        if column == "anylayer":
            net = Prototxt("interp")
            net.layer("y", "Interp", net.input("x", shape), interp_param={"height": height, "width": width})
            model = field.folder / "deploy.prototxt"
            model.write_text(net.text())
            spec = {"model": str(model), "layers": [library], "inputs": path, "engine": "onnxruntime"}
            field.load(column, "anylayer", {**spec, "threads": threads})
        elif column == "opencv":
            spec = {"library": library, "inputs": path, "size": size, "shape": shape}
            field.load(column, "native_opencv", {**spec, "threads": threads})
        else:
            form = _onnx(field.folder / "interp.onnx", shape, size)
            spec = {"forms": {"extension": form}, "inputs": path, "order": ["x"], "outputs": ["y"]}
            field.load(column, "openvino", {**spec, "extension": library, "threads": threads})
    field.compare("anylayer", _LIMIT)
    field.measure()
    return field.row(PART)


def _onnx(path: Path, shape: Sequence[int], size: Sequence[int]) -> str:
    """Write a model of one node that the extension knows, and return its path."""
    node = helper.make_node("Interp", ["x"], ["y"], domain="native", height=size[0], width=size[1])
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name, dims in (("x", shape), ("y", (*shape[:2], *size)))
    ]
    graph = helper.make_graph([node], "interp", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("native", 1)]
    save_model(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return str(path)


def _middle(field: Field, engine: str, shape: tuple[int, ...]) -> Row:
    """Return a row: a network with a layer in its middle, in every way of calling it."""
    library = field.folder / "libdouble.so"
    Build([ROOT / "examples/native/double.cpp"], library, compiler()).run()
    hand = _built(field, {"hand": f"double_{engine}"}).get("hand", "")
    spec = {
        "folder": str(field.folder),
        "engine": engine,
        "shape": shape,
        "library": str(library),
        "hand": hand,
    }
    for call in ("whole", "alone", "kernel", "cut", "bare", *["hand"][: bool(hand)]):
        field.load(call, "native_middle", spec)
        field.limit(call, [call])
    field.measure()
    return field.row("middle")


def _built(field: Field, names: dict[str, str]) -> dict[str, str]:
    """Build a library for each column, and return their paths. A column whose library cannot be built says why."""
    found = {}
    for column, name in names.items():
        out = field.folder / f"lib{name}.so"
        try:
            flags = _flags(name)
            Build([SOURCES / f"{name}.cpp"], out, compiler(), tuned=True, flags=flags).run()
            found[column] = str(out)
        except (Absent, AnyLayerError) as error:
            reason = str(error).strip().splitlines()
            field.entries[column] = {"error": reason[0]}
            print(f"{field.name}: {column} is left out: {reason[0]}")
    return found


def _flags(name: str) -> list[str]:
    """Return further words for the compiler. Raises Absent where the host of a library is not installed."""
    if name.endswith("opencv"):
        try:
            done = subprocess.run(
                ["pkg-config", "--cflags", "opencv4"], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            raise Absent("OpenCV's headers are absent (Debian: apt-get install libopencv-dev)") from None
        return [*done.stdout.split(), "-lopencv_dnn", "-lopencv_core"]
    if name.endswith("openvino"):
        from anylayer.libraries.openvino import extension_flags

        flags = extension_flags()
        if flags is None:
            raise Absent("OpenVINO's headers are absent (pip install openvino)")
        return flags
    return []
