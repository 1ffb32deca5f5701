"""Messages of the Open Inference Protocol (version 2) with its binary tensors, from and to arrays.

Source: the Open Inference Protocol and Triton's extension_binary_data.md. The JSON of a message may be followed by
the raw little-endian data of tensors, whose JSON has the parameter binary_data_size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import InputError, need, need_one_of, plural
from anylayer.network import Array, DType, TensorType

_DTYPES = {
    "BOOL": "bool",
    **{f"{kind}{bits}": f"{kind.lower()}{bits}" for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
_MAX_RANK = 32
"""The largest number of axes that a NumPy array of every version has."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to run a network.

    `arrays` maps inputs to arrays, and `pictures` maps inputs to encoded pictures, one per sample. `outputs` maps
    each requested output to whether its data are binary. If it is empty, all outputs are requested, and `binary`
    says whether their data are binary.
    """

    arrays: dict[str, Array]
    pictures: dict[str, list[bytes]] = field(default_factory=dict)
    outputs: dict[str, bool] = field(default_factory=dict)
    binary: bool = False
    id: str = ""


def datatype(dtype: DType) -> str:
    """Return the protocol's name of a dtype. Raises InputError for one that it does not have."""
    need(dtype in _NAMES, f"the protocol has no name for dtype {dtype}", InputError)
    return _NAMES[dtype]


def parse(body: bytes | memoryview, json_size: int | None = None) -> Request:
    """Return the request in the body of a message. Raises InputError with the rule that it breaks.

    json_size: the length of the JSON at its start (the header Inference-Header-Content-Length); None if the whole
    body is JSON.
    """
    view = memoryview(body)
    size = len(view) if json_size is None else json_size
    need(0 <= size <= len(view), f"the message has {len(view)} bytes, but its JSON claims {size}", InputError)
    try:
        header = json.loads(bytes(view[:size]))
    except (ValueError, RecursionError):
        raise InputError("the message does not start with JSON of the Open Inference Protocol") from None
    need(isinstance(header, dict), "the JSON of a request must be an object", InputError)
    tensors, rest = _list(header, "inputs"), view[size:]
    need(tensors, "the request has no 'inputs'", InputError)
    request = Request({}, {}, {}, _flag(header, "binary_data_output"), str(header.get("id", "")))
    for tensor in tensors:
        name = _name(tensor, "input")
        need(
            name not in request.arrays and name not in request.pictures, f"input '{name}' occurs twice", InputError
        )
        rest = _take(request, name, tensor, rest)
    need(not rest, f"{plural(len(rest), 'byte')} after the data of the inputs", InputError)
    for tensor in _list(header, "outputs"):
        parameters = tensor.get("parameters") or {}
        need(
            isinstance(parameters, dict) and not parameters.get("classification"),
            "classification is not available: request the output itself",
            InputError,
        )
        request.outputs[_name(tensor, "output")] = bool(parameters.get("binary_data", request.binary))
    return request


def _list(message: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = message.get(key) or []
    need(
        isinstance(value, list) and all(isinstance(v, dict) for v in value),
        f"'{key}' must be a list of objects",
        InputError,
    )
    return list(value)


def _name(tensor: Mapping[str, Any], what: str) -> str:
    name = tensor.get("name")
    if not isinstance(name, str):
        raise InputError(f"an {what} has no name")
    return name


def _flag(message: Mapping[str, Any], name: str) -> bool:
    parameters = message.get("parameters") or {}
    return isinstance(parameters, dict) and bool(parameters.get(name))


def _take(request: Request, name: str, tensor: Mapping[str, Any], rest: memoryview) -> memoryview:
    """Add an input to the request. Return the data of the inputs that follow."""
    shape, kind = tensor.get("shape"), tensor.get("datatype")
    if not isinstance(shape, list) or not all(type(d) is int and d >= 0 for d in shape) or len(shape) > _MAX_RANK:
        raise InputError(f"input '{name}': the shape must be a list of sizes, got {json.dumps(shape)[:80]}")
    parameters = tensor.get("parameters") or {}
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    raw = None
    if size is not None:
        need(
            type(size) is int and 0 <= size <= len(rest),
            f"input '{name}' claims {size} binary bytes, but {len(rest)} follow",
            InputError,
        )
        raw, rest = rest[:size], rest[size:]
    if kind == "BYTES":
        request.pictures[name] = _elements(name, raw, math.prod(shape))
        return rest
    need(
        isinstance(kind, str) and kind in _DTYPES,
        f"input '{name}': there is no datatype {kind!r:.40}; it must be one of {', '.join(_DTYPES)}, "
        "or BYTES for encoded pictures",
        InputError,
    )
    dtype = np.dtype(_DTYPES[str(kind)])
    array = (
        _values(name, tensor.get("data"), dtype) if raw is None else _binary(name, raw, dtype, math.prod(shape))
    )
    need(
        array.size == math.prod(shape),
        f"input '{name}' has {plural(array.size, 'value')}, but shape {shape} needs {math.prod(shape)}",
        InputError,
    )
    request.arrays[name] = array.reshape(shape)
    return rest


def _binary(name: str, raw: memoryview, dtype: DType, count: int) -> Array:
    need(
        len(raw) == count * dtype.itemsize,
        f"input '{name}' has {len(raw)} bytes, but {count} values of {dtype} need {count * dtype.itemsize}",
        InputError,
    )
    return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype, copy=False)


def _values(name: str, data: Any, dtype: DType) -> Array:
    """Return the values of JSON, flat or nested. Values that the dtype does not have are refused."""
    try:
        array = np.asarray(data)
    except (ValueError, RecursionError):
        array = np.asarray("")
    if array.size == 0 and isinstance(data, list):
        array = array.astype(dtype)
    fits = array.dtype.kind in ("b" if dtype == np.bool_ else "biuf" if dtype.kind == "f" else "biu")
    need(isinstance(data, list) and fits, f"input '{name}': the data must be numbers of type {dtype}", InputError)
    if dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        need(
            limits.min <= array.min() and array.max() <= limits.max,
            f"input '{name}': a value is beyond {dtype}",
            InputError,
        )
    with np.errstate(over="ignore"):
        return array.astype(dtype).ravel()


def _elements(name: str, raw: memoryview | None, count: int) -> list[bytes]:
    """Return the elements of a BYTES tensor. Each has its length in front, in 4 bytes."""
    if raw is None:
        raise InputError(f"input '{name}': pictures must be binary data (binary_data_size), not JSON")
    arrays = []
    while raw:
        need(len(raw) >= 4, f"input '{name}': the length of an element is cut off", InputError)
        size, raw = int.from_bytes(raw[:4], "little"), raw[4:]
        need(size <= len(raw), f"input '{name}': an element claims {size} bytes, {len(raw)} follow", InputError)
        arrays.append(bytes(raw[:size]))
        raw = raw[size:]
    need(
        len(arrays) == count,
        f"input '{name}' has {plural(len(arrays), 'element')}, but its shape needs {count}",
        InputError,
    )
    return arrays


def response(
    model: str, request: Request, outputs: Mapping[str, Array]
) -> tuple[list[bytes | memoryview], int | None]:
    """Return the pieces of the answer to a request, and the length of its JSON where binary data follow it.

    An output with NaN or an infinity is binary in any case, because JSON has no such numbers. Raises InputError
    for an output that the network does not have.
    """
    for name in request.outputs:
        need_one_of(name, outputs, f"there is no output '{name}'", "outputs")
    names = request.outputs or dict.fromkeys(outputs, request.binary)
    pieces: list[bytes | memoryview] = []
    tensors: list[dict[str, Any]] = []
    for name, binary in names.items():
        array = outputs[name]
        binary = binary or (array.dtype.kind == "f" and not np.isfinite(array).all())
        tensor: dict[str, Any] = {"name": name, "datatype": datatype(array.dtype), "shape": list(array.shape)}
        if binary:
            data = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            tensor["parameters"] = {"binary_data_size": data.nbytes}
            pieces.append(data.reshape(-1).view(np.uint8).data if data.size else b"")
        else:
            tensor["data"] = array.ravel().tolist()
        tensors.append(tensor)
    head: dict[str, Any] = {"model_name": model, "model_version": VERSION, "outputs": tensors}
    if request.id:
        head["id"] = request.id
    text = json.dumps(head).encode()
    return [text, *pieces], len(text) if pieces else None


MAX_BATCH = 2**31 - 1
"""The max_batch_size of a network whose number of samples is free: only the size of the request limits it."""
VERSION = "1"
"""The version of every model."""


def metadata(
    model: str, engine: str, inputs: Mapping[str, TensorType], outputs: Mapping[str, TensorType], open_batch: bool
) -> dict[str, Any]:
    """Return the description of a network. open_batch: whether the number of samples is free."""

    def tensors(types: Mapping[str, TensorType]) -> list[dict[str, Any]]:
        tensors = []
        for name, kind in types.items():
            shape = [d if isinstance(d, int) else -1 for d in kind.shape]
            shape = [-1, *shape[1:]] if open_batch else shape
            tensors.append({"name": name, "datatype": datatype(kind.dtype), "shape": shape})
        return tensors

    head = {"name": model, "versions": [VERSION], "platform": f"anylayer_{engine}"}
    return {**head, "inputs": tensors(inputs), "outputs": tensors(outputs)}


def configuration(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a network as Triton's model configuration, whose shapes leave out the batch axis."""
    ends = [*described["inputs"], *described["outputs"]]
    batched = all(tensor["shape"][:1] == [-1] for tensor in ends)

    def tensors(key: str) -> list[dict[str, Any]]:
        return [
            {
                "name": t["name"],
                "data_type": f"TYPE_{t['datatype']}",
                "dims": t["shape"][1:] if batched else t["shape"],
            }
            for t in described[key]
        ]

    head = {
        "name": described["name"],
        "platform": described["platform"],
        "max_batch_size": MAX_BATCH if batched else 0,
    }
    return {**head, "input": tensors("inputs"), "output": tensors("outputs")}


def ordered_inputs(
    request: Request, types: Mapping[str, TensorType], sizes: Mapping[str, Sequence[int | None]]
) -> dict[str, Array]:
    """Return the arrays of a request in the order of the network's inputs.

    types: the network's inputs. sizes: the sizes that each input must have, None where a size is free. Raises
    InputError where an input is missing, unknown, or of another shape or dtype.
    """
    for name in request.arrays:
        need_one_of(name, types, f"the network has no input '{name}'")
    for name, kind in types.items():
        need(name in request.arrays, f"input '{name}' is missing", InputError)
        array, size = request.arrays[name], sizes[name]
        need(
            array.ndim == len(size) and all(w in (None, d) for w, d in zip(size, array.shape)),
            f"input '{name}' must have shape {[-1 if w is None else w for w in size]}, got {list(array.shape)}",
            InputError,
        )
        need(
            array.dtype == kind.dtype,
            f"input '{name}' must be {datatype(kind.dtype)}, got {datatype(array.dtype)}",
            InputError,
        )
    return {name: request.arrays[name] for name in types}
