"""What the corrections of OpenVINO share: operators that it neither fuses nor writes over, and open sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.corrections.corrector import Corrector
from anylayer.graph import Op, Value
from anylayer.graph.facts import producer_through
from anylayer.graph.operators import VIEWS
from anylayer.graph.sizes import Dim, stand_for


def keep_apart(new: Corrector, o: Op, value: Value) -> Value:
    """Return a maximum of a value and the lowest one, which OpenVINO does not fuse with operators around it.

    `o` is the operator that is corrected. OpenVINO's maximum returns its second input for NaN, so NaN stays.
    """
    lowest: float = -np.inf
    if value.dtype.kind != "f":
        lowest = max(np.iinfo(value.dtype).min, np.iinfo(np.int32).min)
    constant = new.constant(np.array(lowest, value.dtype))
    return new.step(o, "Max", [constant, value], value.shape, value.dtype)


def is_concatenation(new: Corrector, value: Value) -> bool:
    """Return whether a value is the output of Concat or Tile, or a view of one."""
    source = producer_through(new.graph.producers, value, VIEWS)
    return source is not None and source.op in ("Concat", "Tile")


def magnitude(new: Corrector, o: Op, value: Value) -> Value:
    """Return |value| for the correction of `o`. OpenVINO writes the result of Abs over a concatenation."""
    if not is_concatenation(new, value):
        return new.step(o, "Abs", [value], value.shape, value.dtype)
    negative = new.step(o, "Neg", [value], value.shape, value.dtype)
    return new.step(o, "Max", [value, negative], value.shape, value.dtype)


def longer(shape: Sequence[Any], axis: int) -> tuple[Any, ...]:
    """Return a shape with a size of its own along an axis: at least 1."""
    most = stand_for(shape)[axis]
    return (*shape[:axis], Dim("size", max(1, most)), *shape[axis + 1 :])


def with_an_element(new: Corrector, o: Op, x: Value, axis: int) -> Value:
    """Return `x` with an element of 0 if it has none along an axis."""
    one = new.constant(np.ones(1, np.int64))
    size = new.step(o, "Shape", [x], (1,), np.int64, start=axis, end=axis + 1)
    missing = new.step(o, "Sub", [new.step(o, "Max", [size, one], (1,), np.int64), size], (1,), np.int64)
    rank = len(x.shape)
    at_end = new.constant(np.eye(2 * rank, dtype=np.int64)[rank + axis])
    pads = new.step(o, "Mul", [at_end, missing], (2 * rank,), np.int64)
    return new.step(o, "Pad", [x, pads], longer(x.shape, axis), x.dtype)
