"""DMP's DV700 accelerator: C++ code in the form of DMP's own tool, and a runtime for PCs."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from anylayer.errors import InputError, need, wording
from anylayer.folders import fill, template
from anylayer.generators import Expected, Project
from anylayer.generators._cpp import names
from anylayer.generators.dv.build import build
from anylayer.generators.dv.callbacks import Callbacks
from anylayer.generators.dv.graphs import TooLarge, padded_to, scaled_down, with_fixed_sizes
from anylayer.generators.dv.plan import DvPlan, FullyConnected
from anylayer.generators.dv.simulation import difference, simulated, with_half_layers
from anylayer.generators.dv.text import write
from anylayer.graph import Graph
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.optimize.simplify import simplify
from anylayer.source import Source

WHAT = "a network for DMP's DV700"
OPTIONS = ("callback_arguments", "quantization")
RULES = "dv"
LAYOUT = "NCHW"
"""The order of axes that the classes of a user see."""
TOLERANCE = 2e-3
"""The largest difference of an output, relative to its largest value: the values are 16-bit floats."""

_MARGIN = 3
"""A difference may exceed that of rounding the values between the layers by this factor, because weights are
rounded, too."""
_COMPILERS = ("g++", "clang++", "c++")
_HOST = ("dmp_network.h", "dmp_network.cpp")


def kept_types(source: Source) -> set[str]:
    """Return the layer types that become custom layers: the user's, and those whose layers all compute numbers
    from params and from the sizes of arrays of the network. Computations with stored arrays, and with integers,
    which are shapes, become constants."""
    constant: dict[str, bool] = {}
    reached = set(source.network.inputs)
    for t in source.nodes:
        arrays = reached.intersection(t.node.inputs)
        reached.update(t.node.outputs if arrays else ())
        kinds = [x.dtype for x in t.constants.values()] + [x.dtype for x in t.inputs if x is not None]
        alone = t.is_constant and bool(arrays) and all(kind == np.float32 for kind in kinds)
        constant[t.node.type] = constant.get(t.node.type, True) and alone
    types = {t.node.type for t in source.nodes} & source.user_types
    return types | {kind for kind, alone in constant.items() if alone}


def generate(
    source: Source, expected: Expected, callback_arguments: int | str = 3, quantization: int | str = 0
) -> Project:
    """Return a project: <name>_gen.h, <name>_gen.cpp, <name>_weights.bin, a runtime for PCs in host/, and a test.

    callback_arguments: 3, or 2 for runtimes of 2018, whose callbacks have no `io_ptr`. quantization: 1 for weights
    of 8 bits, 0 for 16-bit floats.

    Raises InputError for pictures in batches and inputs of other dtypes, and LayerError if the network exceeds a
    limit of the hardware or if no code can be generated for a layer.
    """
    arguments, bits = str(callback_arguments), str(quantization)
    need(arguments in ("2", "3"), f"callback_arguments must be 2 or 3, got {arguments}", InputError)
    need(bits in ("0", "1"), f"quantization must be 0 or 1, got {bits}", InputError)
    _need_pictures(source)
    name = names().new(source.network.name or Path(source.network.source).stem, "Network")
    places = {t.node.name: t.node.place for t in source.nodes}
    graph = with_fixed_sizes(simplify(source.graph), places)
    plan, on_device, notes = _fitting(graph, places, expected, bits == "1")
    written = write(plan, name, Callbacks(source, arguments == "2"))
    shapes = {public: tuple(map(int, v.shape)) for public, v in zip(source.outputs, plan.graph.outputs)}
    notes += [
        f"output '{public}' always has the shape {shapes[public]}; the rows after the last result hold -1"
        for public, v in zip(source.outputs, source.graph.outputs)
        if not is_static(v.shape)
    ]
    want = padded_to(expected, shapes)
    exact = simulated(replace(plan, weights={}), want) if plan.weights else on_device
    rounding = difference(want, exact)
    limit = max(TOLERANCE, _MARGIN * difference(want, padded_to(with_half_layers(source, expected), shapes)))
    need(
        rounding <= limit,
        f"16-bit floats change an output by {rounding:.1g} of its largest value, expected at most {limit:.1g}; "
        "this is a mistake of the generator",
    )
    if rounding > TOLERANCE:
        notes.append(
            f"16-bit floats change an output by {rounding:.1g} of its largest value, compared with the layers in "
            "NumPy; the test compares with the layers in NumPy that round as the hardware does"
        )
    if plan.weights:
        notes.append(
            f"weights of 8 bits change an output by {difference(exact, on_device):.1g} of its largest value, "
            "compared with 16-bit floats; the test compares with the layers in NumPy that have the same weights"
        )
    compiler = _compiler()
    here = Path(__file__).parent / "host"
    flags = ["-std=c++11", "-O2", "-Ihost", *(["-DDMP_TWO_ARGUMENTS"] if arguments == "2" else [])]
    sources = ["test_network.cpp", f"{name}_gen.cpp", "host/dmp_network.cpp"]
    return Project(
        files={
            f"{name}_gen.h": written.header,
            f"{name}_gen.cpp": written.source,
            f"{name}_weights.bin": [written.weights],
            **{f"host/{file}": (here / file).read_text("utf-8") for file in _HOST},
            "test_network.cpp": _test(plan, name, expected),
            "test_data.bin": [_data(plan, source, on_device)],
        },
        test=[[*(compiler or ["c++"]), *flags, *sources, "-o", "test_network"], ["./test_network"]],
        missing="" if compiler else f"a C++ compiler ({', '.join(_COMPILERS)})",
        notes=notes,
    )


def _compiler() -> list[str]:
    """Return the command of the C++ compiler: $CXX, as CMake does, else the first that exists."""
    named = shlex.split(os.environ.get("CXX", ""))
    compilers = named[:1] or _COMPILERS
    return next(([c, *named[1:]] for c in compilers if shutil.which(c)), [])


def _fitting(
    graph: Graph, places: Mapping[str, str], expected: Expected, quantization: bool
) -> tuple[DvPlan, Expected, list[str]]:
    """Return the plan of a graph whose values 16-bit floats can hold, the outputs that the hardware computes, and
    notes about layers that were scaled.

    Raises LayerError for a layer whose values are too large and cannot be scaled.
    """
    notes: list[str] = []
    while True:
        plan = build(graph, places, quantization)
        arrange(plan)
        try:
            return plan, simulated(plan, expected), notes
        except TooLarge as error:
            smaller = scaled_down(graph, error.op, error.largest)
            if smaller is None:
                raise
            graph = smaller
            notes.append(
                f"layer '{error.op.scope}' computes values up to {error.largest:.3g}, and 16-bit floats hold at "
                "most 65504; it computes them divided by a power of two, which the weights of the next layers undo"
            )


def _need_pictures(source: Source) -> None:
    """Raise InputError unless the inputs are float32, and pictures have a batch of 1."""
    for name, kind in source.inputs.items():
        batch = kind.shape[0] if len(kind.shape) == 4 else 1
        need(
            batch == 1,
            f"the hardware takes one picture at a time, and input '{name}' has the batch size {batch}; give "
            + wording(f"shapes={{'{name}': (1, ...)}}", f"--shape {name}=1,..."),
            InputError,
        )
        need(kind.dtype == np.float32, f"input '{name}' is {kind.dtype}, the hardware takes float32", InputError)


def arrange(plan: DvPlan) -> None:
    """Permute the columns of fully connected layers' weights to the memory order of their inputs."""
    for layer in plan.layers:
        if isinstance(layer.kind, FullyConnected):
            layer.kind.weight = layer.kind.weight[:, layer.inputs[0].memory()]


def _results(plan: DvPlan) -> list[tuple[int, int, Array]]:
    """Return (output layer, first element, order of the elements) for each output of the network."""
    outputs = [layer for layer in plan.layers if any(b.is_output for b in layer.outputs)]
    results = []
    for view in plan.results:
        i, layer = next((i, layer) for i, layer in enumerate(outputs) if view.buffer in layer.outputs)
        first = sum(b.count for b in layer.outputs[: layer.outputs.index(view.buffer)])
        results.append((i, first, view.result()))
    return results


def _data(plan: DvPlan, source: Source, expected: Expected) -> bytes:
    """Return each input in the hardware's layout, followed by the outputs in the runtime's order, as bytes."""
    parts = []
    for sample in expected.samples:
        parts += [
            sample.inputs[value.name].reshape(-1)[view.memory()].astype(np.float16).tobytes()
            for value, view in zip(plan.graph.inputs, plan.inputs)
        ]
        parts += [
            sample.outputs[public].reshape(-1)[order].astype(np.float32).tobytes()
            for public, (_, _, order) in zip(source.outputs, _results(plan))
        ]
    return b"".join(parts)


def _test(plan: DvPlan, name: str, expected: Expected) -> str:
    rows = ", ".join(f"{{{i}, {first}, {len(order)}}}" for i, first, order in _results(plan))
    return fill(
        template(__file__, "test_network.cpp"),
        header=f"{name}_gen.h",
        weights=f"{name}_weights.bin",
        network=f"C{name}",
        rows=rows,
        count=str(len(plan.results)),
        samples=str(len(expected.samples)),
        inputs=", ".join(f"{{{view.buffer.offset}, {view.buffer.size}}}" for view in plan.inputs),
        input_count=str(len(plan.inputs)),
        tolerance=str(TOLERANCE),
    )
