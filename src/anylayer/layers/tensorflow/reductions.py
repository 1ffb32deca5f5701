"""Reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.layers.tensorflow._base import (
    Enum,
    Operation,
    attribute,
    axes_of,
    axis_of,
    layer,
    need,
    single,
    whole,
)


def _mean(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    if x.dtype.kind == "f":
        return np.mean(x, axis=axis, keepdims=keepdims)
    count = int(np.prod([x.shape[a] for a in axis]))
    return np.sum(x, axis=axis, keepdims=keepdims) // max(count, 1)


def _norm(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


class _Reduction(Operation):
    keep_dims: bool = attribute("bool", False)
    function: Callable[..., Any]

    def forward(self, x: Any, axes: Any) -> Any:
        over = whole(axes, "reduction_indices", 2)
        axis = tuple(sorted(axes_of(over, len(x.shape), "reduction_indices")))
        if not axis:
            return x
        return type(self).function(x, axis=axis, keepdims=self.keep_dims).astype(x.dtype)


_FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "Mean": ("The mean over some axes.", _mean),
    "Sum": ("The sum over some axes.", np.sum),
    "Prod": ("The product over some axes.", np.prod),
    "Max": ("The largest value over some axes.", np.max),
    "Min": ("The smallest value over some axes.", np.min),
    "All": ("Whether all hold over some axes.", np.all),
    "Any": ("Whether any holds over some axes.", np.any),
    "EuclideanNorm": ("The root of the sum of squares over some axes.", _norm),
}
for _name, (_doc, _function) in _FUNCTIONS.items():
    _body = {"__doc__": _doc, "__module__": __name__, "function": staticmethod(_function)}
    layer(_name)(type(_name, (_Reduction,), _body))


class _Best(Operation):
    output_type: str = attribute(Enum("int32", "int64", "int16", "uint16"), "int64")
    smallest = False

    def forward(self, x: Any, axis: Any) -> Any:
        over = axis_of(single(axis, "dimension"), len(x.shape), "dimension")
        need(x.shape[over], "there is no value to choose from")
        found = np.argmin(x, axis=over) if self.smallest else np.argmax(x, axis=over)
        return found.astype(self.output_type)


@layer("ArgMax")
class ArgMax(_Best):
    """Where the largest value along an axis lies; the first of equal ones."""


@layer("ArgMin")
class ArgMin(_Best):
    """Where the smallest value along an axis lies; the first of equal ones."""

    smallest = True


@layer("Cumsum")
class Cumsum(Operation):
    """Running sums along an axis."""

    exclusive: bool = attribute("bool", False)
    reverse: bool = attribute("bool", False)

    def forward(self, x: Any, axis: Any) -> Any:
        over = axis_of(single(axis, "axis"), len(x.shape))
        y = np.flip(x, over) if self.reverse else x
        total = np.cumsum(y, axis=over).astype(x.dtype)
        total = total - y if self.exclusive else total
        return np.flip(total, over) if self.reverse else total


@layer("L2Loss")
class L2Loss(Operation):
    """Half the sum of squares."""

    def forward(self, x: Any) -> Any:
        return (np.sum(x * x) / 2).astype(x.dtype)
