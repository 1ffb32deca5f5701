"""Export of any NumPy function as a file: the function is traced like a layer, written, and verified."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.api import Net, PathLike
from anylayer.errors import InputError, at, need
from anylayer.layer import Definition
from anylayer.network import Network, Node, TensorType

if TYPE_CHECKING:
    from anylayer.convert.conversion import Conversion

_OUTSIDE = "<exported function>"


def export(
    function: Callable[..., Any],
    *inputs: Any,
    path: PathLike,
    format: str | None = None,
    batch: int | str | None = None,
    **options: Any,
) -> Conversion:
    """Write a NumPy function as a model that runs without Python, and verify it against the function.

    The function may call NumPy and `anylayer.ops`. It is traced: branches and loops on shapes and Python values
    are followed, and branches on the values of arrays are refused with the line. It gets one array per input and
    returns an array, a tuple or list of arrays, or a dict of arrays. The model's inputs are named after the
    function's parameters. Its outputs are named "output", or "output0", "output1", ..., or after the keys of the
    dict.

    Args:
        function: the function, or any callable object.
        inputs: an example array per input, or a pair (shape, dtype). The function is traced for these types.
        path: the file to write. Its suffix selects the format: ".onnx", ".xml" (OpenVINO IR), ".prototxt" (Caffe).
        format: the format, where the suffix does not tell: "onnx", "openvino" or "caffe".
        batch: an int, or a name for a symbolic first axis, as in `Net.write`.
        options: further options of `Net.write`.

    Returns the Conversion: the files, and how far the model is from the function on example arrays, or on seeded
    noise where no arrays are given. Raises TraceError with the line that cannot be recorded, ConversionError where
    the file computes something else, and InputError.

    >>> import numpy as np, anylayer
    >>> def normalize(x):
    ...     return x / np.sqrt((x * x).sum(axis=1, keepdims=True))
    >>> anylayer.export(normalize, ((1, 8), "float32"), path="normalize.onnx")  # doctest: +SKIP
    """
    name = getattr(function, "__name__", type(function).__name__)
    place = f"function '{name}'"
    need(inputs, f"{place}: give an example array, or a pair (shape, dtype), per input", InputError)
    with at(place):
        types = dict(zip(_names(function, len(inputs)), map(_type, inputs)))
        outputs, cls = _layer(function, name, list(types.values()))
        both = sorted({*types} & {*outputs})
        need(not both, f"has an input and an output of one name: {', '.join(both)}", InputError)
        node = Node(name, name, list(types), outputs, place=place)
        network = Network(name, "onnx", {**types}, [node], {o: o for o in outputs}, source=place)
        net = Net(network, {name: Definition(name, cls, place)})
    arrays = {n: x for n, x in zip(types, inputs) if isinstance(x, np.ndarray)}
    verify: bool | Mapping[str, Any] = arrays if len(arrays) == len(inputs) else True
    return net.write(Path(path), format, batch=batch, verify=verify, **options)


def _names(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names of the function's first parameters. Raises InputError where it takes fewer."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a built-in function without a signature
        return [f"x{i}" for i in range(count)]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    needed = sum(
        p.default is p.empty for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    )
    if rest is not None:
        names += [f"{rest}{i}" for i in range(count - len(names))]
    need(needed <= count <= len(names), f"takes {len(names)} arguments, got {count} inputs", InputError)
    return names[:count]


def _type(given: Any) -> TensorType:
    """Return the type of an example array, or of a pair (shape, dtype)."""
    if isinstance(given, TensorType):
        return given
    try:
        if isinstance(given, tuple) and len(given) == 2 and not isinstance(given[1], (int, float)):
            shape, dtype = given
            return TensorType.of(tuple(int(n) for n in shape), np.dtype(dtype))
        array = np.asarray(given)
        need(array.dtype.kind in "biuf", f"an input of dtype {array.dtype} cannot be exported", InputError)
        return TensorType.of(array.shape, array.dtype)
    except (TypeError, ValueError) as error:
        raise InputError(f"an input must be an array or a pair (shape, dtype): {error}") from None


def _layer(function: Callable[..., Any], name: str, types: Sequence[TensorType]) -> tuple[list[str], type]:
    """Return the names of the function's outputs, and a layer class whose `forward` is the function."""
    from anylayer.tracing.checked import trace_checked

    found: dict[str, list[str]] = {}

    def forward(self: Any, inputs: list[Any]) -> list[Any]:
        result = function(*inputs)
        if isinstance(result, (tuple, list)):
            result = {f"output{i}": y for i, y in enumerate(result)}
        elif not isinstance(result, dict):
            result = {"output": result}
        found["names"] = [str(key) for key in result]
        return [y if hasattr(y, "__array_function__") else np.asarray(y) for y in result.values()]

    # The tracer looks into code of the user's for state and randomness, and passes over code of this package.
    module = getattr(function, "__module__", None) or "given"
    forward.__code__, forward.__module__ = forward.__code__.replace(co_filename=_OUTSIDE), module
    members = {"forward": forward, "__init__": lambda self, params, blobs: None, "__module__": module}
    cls = type(name, (), members)
    instance = cls({}, [])
    trace_checked(instance.forward, types, rebuild=lambda: cls({}, []).forward, subject=lambda: instance)
    names = found["names"]
    if not names:
        raise InputError("returns no array")
    need(len(set(names)) == len(names), f"returns two outputs of one name: {', '.join(names)}", InputError)
    return names, cls
