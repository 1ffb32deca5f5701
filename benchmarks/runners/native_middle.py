"""Call a network with a layer in C++ in its middle in every way, on one engine.

spec: folder, engine, shape, library (of examples/native/double.cpp), wrapper (the engine's extension, or None).
The network is Convolution, ReLU, Double, Convolution, ReLU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import anylayer
from anylayer.compile.plan import GraphStep, KernelStep
from anylayer.engines import load_engine
from anylayer.graph import Graph
from anylayer.optimize.simplify import simplify
from benchmarks.prototxt import Prototxt
from benchmarks.runners import Loaded

DOMAIN = "native"


def load(spec: dict[str, Any]) -> Loaded:
    """Offer these calls.

    whole, alone: the network with and without the layer, through anylayer. kernel: the layer's function alone.
    parts: the two parts of the network on the engine. bare: the network without the layer on the engine. wrapped:
    the network with the layer as an operator of the engine.
    """
    engine, shape = spec["engine"], tuple(spec["shape"])
    x = np.random.default_rng(0).random(shape, np.float32)
    folder = Path(spec["folder"])
    native, alone = (_network(folder, shape, library) for library in (spec["library"], None))
    with_layer, without = (net.compile(engine, threads=1) for net in (native, alone))
    first, kernel, second = with_layer.plan.steps
    programs = [_program(engine, step.graph) for step in (first, second)]
    bare = _program(engine, without.plan.steps[0].graph)
    calls: dict[str, Callable[[], Any]] = {
        "whole": lambda: with_layer(x),
        "alone": lambda: without(x),
        "kernel": _kernel_call(kernel, x),
        "parts": lambda: programs[1](programs[0]([x])),
        "bare": lambda: bare([x]),
    }
    if spec["wrapper"]:
        joined = _joined(first, kernel, second)
        wrapped = _with_wrapper(engine, spec["wrapper"], lambda: _program(engine, joined))
        calls["wrapped"] = lambda: wrapped([x])
    return Loaded(calls, lambda name: {"y": np.array(_first(calls[name]()))}, {"engine": engine})


def _first(result: Any) -> Any:
    return next(iter(result.values())) if isinstance(result, dict) else result[0]


def _network(folder: Path, shape: tuple[int, ...], library: str | None) -> anylayer.Net:
    """Return the network with or without the layer, with random weights."""
    name = "native" if library else "alone"
    net = Prototxt(name)
    value = net.input("x", shape)
    for i in ("first", "second"):
        value = net.layer(
            i, "Convolution", value, convolution_param={"num_output": shape[1], "kernel_size": 3, "pad": 1}
        )
        value = net.layer(f"{i}_relu", "ReLU", value)
        if library and i == "first":
            value = net.layer("double", "Double", value)
    path = folder / f"{name}.prototxt"
    path.write_text(net.text())
    return anylayer.read(path, layers=[library] if library else []).fill(0)


def _program(engine: str, graph: Graph) -> Any:
    return load_engine(engine).compile(simplify(graph, engine), 1)


def _kernel_call(step: KernelStep, array: Any) -> Callable[[], Any]:
    """Return a call of the layer's function in the library, with arrays that are bound once."""
    program: Any = step.kernel.program(1)
    out = np.empty_like(array)
    program([array], [out])  # the first call checks the layer; the second binds the arrays
    program([array], [out])
    function, (frame,) = program._function, program._frames

    def call() -> Any:
        return [out] if function(*frame.args) == 0 else None

    return call


def _joined(first: GraphStep, kernel: KernelStep, second: GraphStep) -> Graph:
    """Return both graphs as one, with the layer as an operator that has the address of its function."""
    layer: Any = kernel.kernel
    program: Any = layer.program(1)
    graph = Graph()
    inputs = [graph.input(v.name, v.shape, v.dtype) for v in first.graph.inputs]
    (value,) = graph.inline(first.graph, inputs)
    attributes = {
        "forward": ctypes.cast(program._function, ctypes.c_void_p).value,
        "instance": layer.handle,
        "sizes": list(layer.outputs[0].shape),
    }
    (made,) = graph.emit(
        "Wrapped", [value], [(layer.outputs[0].shape, value.dtype)], attributes, domain=DOMAIN, kept=True
    )
    graph.outputs = graph.inline(second.graph, [made])
    return graph


def _with_wrapper(engine: str, wrapper: str, make: Callable[[], Any]) -> Any:
    """Return what `make` compiles while the engine knows the operator of the extension `wrapper`."""
    if engine == "openvino":
        from anylayer.libraries.openvino import shared_core

        shared_core().add_extension(wrapper)
        return make()
    from anylayer.engines import onnxruntime

    before = onnxruntime._silent

    def options() -> Any:
        found = before()
        found.register_custom_ops_library(wrapper)
        return found

    onnxruntime._silent = options
    try:
        return make()
    finally:
        onnxruntime._silent = before
