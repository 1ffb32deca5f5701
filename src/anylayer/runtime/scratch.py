"""Memory for the values between the steps of a plan, which every call reuses.

The page faults of 400 kB of newly allocated memory take 25 us, and an engine takes some microseconds to bind a new
array.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import numpy as np

from anylayer.compile.plan import GraphStep, HostStep, KernelStep, Plan
from anylayer.network import Array, TensorType

_MAX_BYTES = 1 << 26
"""Bytes of the largest array that is kept."""


def scratch_types(plan: Plan) -> dict[str, TensorType]:
    """Return the types of the values whose memory may be reused by the next call, by name. In a plan with native
    kernels or several engines, these are the values that graphs or kernels produce and only graphs and kernels
    read. A layer in Python may keep an array, and the network's outputs belong to the caller.
    """
    if not any(
        isinstance(step, KernelStep) or (isinstance(step, GraphStep) and step.engine) for step in plan.steps
    ):
        return {}
    held = {name for step in plan.steps if isinstance(step, HostStep) for name in step.traced.node.inputs}
    held.update(plan.outputs.values())
    found: dict[str, TensorType] = {}
    for step in plan.steps:
        if isinstance(step, HostStep):
            continue
        produced = step.traced.node.outputs if isinstance(step, KernelStep) else step.outputs
        for name in produced:
            kind = plan.types.get(name)
            if kind is not None and name not in held and _is_kept(kind):
                found[name] = kind
    return found


def _is_kept(kind: TensorType) -> bool:
    """Return whether an array of this type has a fixed size that is not too large to be kept."""
    static = all(isinstance(d, int) for d in kind.shape)
    return static and math.prod(kind.shape) * kind.dtype.itemsize <= _MAX_BYTES


class Scratch(threading.local):
    """The arrays of one thread. `buffers` has, for each step, a list with an array or None per output; None where
    no output of the step has an array."""

    def __init__(self, outputs: Sequence[Sequence[int]], types: dict[int, TensorType]) -> None:
        arrays = {place: np.empty(kind.shape, kind.dtype) for place, kind in types.items()}
        self.buffers: list[list[Array | None] | None] = [
            [arrays.get(place) for place in places] if any(place in arrays for place in places) else None
            for places in outputs
        ]
