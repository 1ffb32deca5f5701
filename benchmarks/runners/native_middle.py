"""Call a network with a layer in C++ in its middle in every way, on one engine.

spec: folder, engine, shape, library (of examples/native/double.cpp), hand (the library of the same layer as an
operator of the engine, written by hand; "" for none).
The network is Convolution, ReLU, Double, Convolution, ReLU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import anylayer
from anylayer.compile.plan import NATIVE_DOMAIN, KernelStep, Plan, with_native_operators
from anylayer.engines import load_engine
from anylayer.graph import Graph
from anylayer.optimize.simplify import simplify
from anylayer.writers._onnx_model import to_onnx
from benchmarks.prototxt import Prototxt
from benchmarks.runners import Loaded


def load(spec: dict[str, Any]) -> Loaded:
    """Offer these calls.

    whole, alone: the network with and without the layer, through anylayer. kernel: the layer's function alone.
    cut: the two parts of the network on the engine, with the layer between them. bare: the network without the
    layer on the engine. hand: the network with the operator written by hand, on the engine.
    """
    engine, shape = spec["engine"], tuple(spec["shape"])
    x = np.random.default_rng(0).random(shape, np.float32)
    folder = Path(spec["folder"])
    native, alone = (_network(folder, shape, library) for library in (spec["library"], None))
    with_layer, without = (net.compile(engine, threads=1) for net in (native, alone))
    first, kernel, second = with_layer.plan.steps
    programs = [_program(engine, step.graph) for step in (first, second)]
    between, memory = kernel.kernel.program(1), [np.empty_like(x) for _ in range(2)]
    bare = _program(engine, without.plan.steps[0].graph)
    calls: dict[str, Callable[[], Any]] = {
        "whole": lambda: with_layer(x),
        "alone": lambda: without(x),
        "kernel": _kernel_call(kernel, x),
        "cut": lambda: programs[1](between(programs[0]([x], memory[:1]), memory[1:])),
        "bare": lambda: bare([x]),
    }
    if spec["hand"]:
        calls["hand"] = _HAND[engine](_by_hand(with_layer.plan, engine), spec["hand"], x)
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


def _by_hand(plan: Plan, engine: str) -> bytes:
    """Return the network as an ONNX model with the operator Double of domain "hand"."""
    (step,) = with_native_operators(plan, lambda _: True).steps
    graph = simplify(step.graph, engine)
    graph.ops = [
        replace(o, op="Double", domain="hand", attrs={}) if o.domain == NATIVE_DOMAIN else o for o in graph.ops
    ]
    return to_onnx(graph).SerializeToString()


def _on_onnxruntime(model: bytes, library: str, x: Any) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(library)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, feed)


def _on_openvino(model: bytes, library: str, x: Any) -> Callable[[], Any]:
    import openvino

    core = openvino.Core()
    core.add_extension(library)
    config = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    config |= {"INFERENCE_NUM_THREADS": 1, "ENABLE_CPU_PINNING": False}
    request = core.compile_model(core.read_model(model), "CPU", config).create_infer_request()
    return lambda: request.infer({0: x}, share_inputs=True, share_outputs=True).to_tuple()


_HAND = {"onnxruntime": _on_onnxruntime, "openvino": _on_openvino}


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
