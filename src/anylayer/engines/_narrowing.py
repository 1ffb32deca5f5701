"""Arrays that OpenVINO holds in less than they have: integers of 64 bits in 32, float64 in float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.errors import EngineError
from anylayer.graph import Value
from anylayer.graph.intervals import is_wide
from anylayer.network import Array

Narrowed = list[tuple[int, str, float, float]]
_INTEGERS = (-(2**31), 2**31 - 1)
_FLOATS = float(np.finfo(np.float32).max)


def narrowed(values: Sequence[Value], *, inputs: bool) -> Narrowed:
    """Return (place, name, least, largest) of the values whose dtype holds more than OpenVINO computes with.

    OpenVINO computes uint32 as int32: what comes of that is right, what it compares and divides is not.
    """
    found: Narrowed = []
    for i, value in enumerate(values):
        if value.dtype == np.float64:
            found.append((i, value.name, -_FLOATS, _FLOATS))
        elif is_wide(value.dtype) or (inputs and value.dtype == np.uint32):
            found.append((i, value.name, *_INTEGERS))
    return found


def need_range(arrays: Sequence[Array], limits: Narrowed, what: str) -> None:
    """Raise EngineError where an array holds what OpenVINO would give as something else. NaN passes.

    An output of float64 that is infinite comes as the largest float32, so that is refused as well.
    """
    for i, name, least, largest in limits:
        array = arrays[i]
        if not array.size:
            continue
        low, high = np.fmin.reduce(array, None), np.fmax.reduce(array, None)
        edge = what == "output" and array.dtype.kind == "f"
        if low < least or high > largest or (edge and (low == least or high == largest)):
            worst = low if low < least or (edge and low == least) else high
            text = "integers in 32 bits" if array.dtype.kind in "iu" else "float64 in float32"
            raise EngineError(
                f"engine 'openvino' computes {text}, and {what} '{name}' holds {worst}. Use engine 'onnxruntime'"
            )
