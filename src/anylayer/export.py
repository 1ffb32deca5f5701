"""Export of any NumPy function as a file: the function is traced like a layer, written, and verified."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.api import Net, PathLike
from anylayer.errors import InputError, at, need
from anylayer.function_nodes import function_name, function_node, input_type, parameter_names
from anylayer.network import Function, Network

if TYPE_CHECKING:
    from anylayer.convert.conversion import Conversion


def export(
    function: Function,
    *inputs: Any,
    path: PathLike,
    format: str | None = None,
    batch: int | str | None = None,
    **options: Any,
) -> Conversion:
    """Write a NumPy function as a model that runs without Python, and verify it against the function.

    The function may call NumPy and `anylayer.ops`. It is traced: branches and loops on shapes and Python values
    are followed, and branches on the values of arrays are recorded (at most 64 paths). It gets one array per input
    and returns an array, a tuple or list of arrays, or a dict of arrays. The model's inputs are named after the
    function's parameters. Its outputs are named "output", or "output0", "output1", ..., or after the keys of the
    dict.

    Args:
        function: the function, or any callable object.
        inputs: an example array per input, or a pair (shape, dtype). The function is traced for these types.
        path: the file to write. Its suffix selects the format: ".onnx", ".xml" (OpenVINO IR), ".prototxt" (Caffe).
        format: the format, where the suffix does not determine it: "onnx", "openvino" or "caffe".
        batch: an int, or a name for a symbolic first axis, as in `Net.write`.
        options: further options of `Net.write`. With `shapes`, sizes stay open: `shapes={"x": ("N", "32*h")}`.

    Returns the Conversion: the files, and the largest differences from the function on the example arrays, or on
    seeded noise where no arrays are given. Raises TraceError with the line that cannot be recorded,
    ConversionError where the file computes something else, and InputError.

    >>> import numpy as np, anylayer
    >>> def normalize(x):
    ...     return x / np.sqrt((x * x).sum(axis=1, keepdims=True))
    >>> anylayer.export(normalize, ((1, 8), "float32"), path="normalize.onnx")  # doctest: +SKIP
    """
    name = function_name(function)
    place = f"function '{name}'"
    need(inputs, f"{place}: give an example array, or a pair (shape, dtype), per input", InputError)
    with at(place):
        types = dict(zip(parameter_names(function, len(inputs)), map(input_type, inputs)))
        node, definition, _ = function_node(function, types)
        both = sorted({*types} & {*node.outputs})
        need(not both, f"has an input and an output of one name: {', '.join(both)}", InputError)
    network = Network(name, "onnx", {**types}, [node], {o: o for o in node.outputs}, source=place)
    net = Net(network, {definition.type: definition})
    arrays = {n: x for n, x in zip(types, inputs) if isinstance(x, np.ndarray)}
    examples = len(arrays) == len(inputs) and not options.get("shapes")
    options.setdefault("verify", arrays if examples else True)
    return net.write(Path(path), format, batch=batch, **options)
