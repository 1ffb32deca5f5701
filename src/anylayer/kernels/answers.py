"""Answers of the child process of `isolate`: a length, JSON, and the bytes of arrays. Reading them executes
nothing, whatever the library has written to the pipe.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import IO, Any, TypeGuard

import numpy as np

from anylayer.kernels.abi import NUMBERS
from anylayer.network import MAX_RANK, MAX_VALUES, Array, TensorType

_LENGTH_BYTES = 8
_MAX_JSON = 64 << 20
"""The largest number of bytes of an answer's JSON."""
_DTYPES = {dtype.name: dtype for dtype in NUMBERS}


class MalformedAnswer(Exception):
    """The bytes are not an answer: the library has written to the pipe, or to memory that is not its own."""


def write_answer(stream: IO[bytes], content: Any, arrays: Sequence[Array] = ()) -> None:
    """Write an answer: something that JSON can hold, and arrays."""
    text = json.dumps(content).encode()
    stream.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    for x in arrays:
        stream.write(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)
    stream.flush()


def read_answer(stream: IO[bytes]) -> Any:
    """Return what the JSON of an answer holds. Raises EOFError where the stream ends, and MalformedAnswer."""
    size = int.from_bytes(_read(stream, _LENGTH_BYTES), "little")
    if size > _MAX_JSON:
        raise MalformedAnswer
    try:
        return json.loads(_read(stream, size))
    except (ValueError, RecursionError):
        raise MalformedAnswer from None


def read_arrays(stream: IO[bytes], types: Sequence[TensorType]) -> list[Array]:
    """Return the arrays of an answer, which have these types. Raises EOFError where the stream ends."""
    arrays = []
    for kind in types:
        x = np.empty(math.prod(kind.shape), kind.dtype)
        if stream.readinto(x.view(np.uint8).data) < x.nbytes:  # type: ignore[attr-defined]  # of a buffered stream
            raise EOFError
        arrays.append(x.reshape(kind.shape))
    return arrays


def _read(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content


def spelled(types: Sequence[TensorType]) -> list[tuple[str, Sequence[int]]]:
    """Return the types of arrays as JSON holds them."""
    return [(kind.dtype.name, kind.shape) for kind in types]


def types_of(found: Any) -> list[TensorType]:
    """Return the types that `spelled` gave. Raises MalformedAnswer."""
    if not isinstance(found, list) or not all(_is_type(kind) for kind in found):
        raise MalformedAnswer
    return [TensorType(tuple(shape), _DTYPES[dtype]) for dtype, shape in found]


def _is_type(data: Any) -> bool:
    if not isinstance(data, list) or len(data) != 2 or not isinstance(data[1], list):
        return False
    dtype, shape = data
    sizes = len(shape) <= MAX_RANK and all(type(d) is int and d >= 0 for d in shape)
    return isinstance(dtype, str) and dtype in _DTYPES and sizes and math.prod(shape) <= MAX_VALUES


def is_texts(found: Any) -> TypeGuard[list[str]]:
    """Return whether part of an answer is a list of strings."""
    return isinstance(found, list) and all(isinstance(text, str) for text in found)
