"""Run a NumPy function as a user's layer, or from the ONNX file that anylayer.export writes of it.

spec: function (a name of benchmarks.functions), inputs (.npz), engine, threads, file (the path to write and to
read, or None for a layer).
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

import anylayer
from anylayer.api import Net
from anylayer.function_nodes import function_node, input_type, parameter_names
from anylayer.network import Network
from benchmarks.functions import case
from benchmarks.runners import Loaded, read_inputs


def load(spec: dict[str, Any]) -> Loaded:
    """Compile, and run once."""
    function, arrays = case(spec["function"]).function, list(read_inputs(spec["inputs"]).values())
    inputs = dict(zip(parameter_names(function, len(arrays)), arrays))
    net = _layer(function, inputs) if spec["file"] is None else _file(function, inputs, Path(spec["file"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = net.compile(spec["engine"], {n: x.shape for n, x in inputs.items()}, spec["threads"])
        model(inputs)
    calls = {"call": lambda: model(inputs)}
    facts = {"engine": model.engine, "parts": [engine for engine, _ in model.parts], "timings": model.timings}
    return Loaded(calls, lambda name: {str(i): x for i, x in enumerate(calls[name]().values())}, facts)


def _layer(function: Any, inputs: dict[str, np.ndarray]) -> Net:
    types = {name: input_type(array) for name, array in inputs.items()}
    node, definition, _ = function_node(function, types)
    network = Network(node.name, "onnx", types, [node], {o: o for o in node.outputs}, source=node.place)
    return Net(network, {definition.type: definition})


def _file(function: Any, inputs: dict[str, np.ndarray], path: Path) -> Net:
    anylayer.export(function, *inputs.values(), path=path)
    return anylayer.read(path)
