"""Refuse values that OpenVINO would change: it computes 64-bit integers in 32 bits, and float64 in float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.errors import EngineError
from anylayer.graph import Value
from anylayer.graph.intervals import is_wide
from anylayer.network import Array

Narrowed = list[tuple[int, str, float, float]]
"""Values of a narrower dtype in OpenVINO: (index, name, smallest, largest)."""
_INTEGERS = (-(2**31), 2**31 - 1)
_FLOATS = float(np.finfo(np.float32).max)


def narrow(values: Sequence[Value], *, inputs: bool) -> Narrowed:
    """Return the values whose dtype OpenVINO narrows, with the range of values that it preserves.

    inputs: whether these are a graph's inputs. uint32 is included for inputs only: OpenVINO computes it as int32,
    so that results are right modulo 2**32, except those of comparisons and divisions.
    """
    casts: Narrowed = []
    for i, value in enumerate(values):
        if value.dtype == np.float64:
            casts.append((i, value.name, -_FLOATS, _FLOATS))
        elif is_wide(value.dtype) or (inputs and value.dtype == np.uint32):
            casts.append((i, value.name, *_INTEGERS))
    return casts


def need_range(arrays: Sequence[Array], limits: Narrowed, what: str) -> None:
    """Raise EngineError where an array contains a value outside its range. NaN is allowed.

    what: "input" or "output". The largest float32 is refused as an output of float64, because OpenVINO returns it
    for an infinity.
    """
    for i, name, smallest, largest in limits:
        array = arrays[i]
        if not array.size:
            continue
        low, high = np.fmin.reduce(array, None), np.fmax.reduce(array, None)
        edge = what == "output" and array.dtype.kind == "f"
        if low < smallest or high > largest or (edge and (low == smallest or high == largest)):
            worst = low if low < smallest or (edge and low == smallest) else high
            text = "integers in 32 bits" if array.dtype.kind in "iu" else "float64 in float32"
            raise EngineError(f"engine 'openvino' computes {text}, and {what} '{name}' holds {worst}")
