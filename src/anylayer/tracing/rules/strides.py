"""Windows of an array by strides: np.lib.stride_tricks.as_strided, recorded as a gather."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.graph.place import refusal
from anylayer.graph.symbolic import symbolic_shape
from anylayer.tracing.array import selected, view_of
from anylayer.tracing.rules import creation


def as_strided(x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True) -> Any:
    """Implement as_strided for constant shapes and strides that stay inside. The result is read-only."""
    x = creation.asarray(selected(x))
    shape = x.shape if shape is None else tuple(shape)
    steps = x.strides if strides is None else tuple(strides)
    if symbolic_shape((*shape, *x.shape, *steps)):
        raise refusal("as_strided with open sizes cannot be recorded; use sliding_window_view")
    if not x._dummy().flags.c_contiguous:
        raise refusal("as_strided of an array that is not contiguous cannot be recorded; .copy() it first")
    places = np.zeros((), np.int64)
    for n, step in zip(shape, steps):
        if step % x.itemsize:
            raise refusal(f"as_strided with a stride of {step} bytes reads parts of elements; use whole elements")
        places = places[..., None] + np.arange(n) * (step // x.itemsize)
    if places.size and not 0 <= places.min() <= places.max() < x.size:
        raise refusal("as_strided reads beyond the array; use a shape and strides that stay inside")
    return view_of(x, lambda p: p.reshape(-1)[places], None)


class _ModuleOfNumPy:
    """A module of NumPy in which some members are replaced."""

    def __init__(self, original: Any, members: dict[str, Any]) -> None:
        self._original = original
        vars(self).update(members)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


TRICKS: Any = _ModuleOfNumPy(np.lib.stride_tricks, {"as_strided": as_strided})
LIB: Any = _ModuleOfNumPy(np.lib, {"stride_tricks": TRICKS})
"""The substitutes for NumPy's modules lib.stride_tricks and lib."""
