"""Reductions along axes, and running sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import Operation, axes_of, axis_of, family, whole


class Reduction(Operation):
    """Reduce the axes that the second input names."""

    keep_dims: bool = attribute("bool", False, doc="reduced axes stay, with size 1")

    def forward(self, x: Any, axes: Any) -> Any:
        named = tuple(axes_of(whole(axes, "axes"), len(x.shape)))
        return self.compute(x, named, self.keep_dims) if named else x

    @staticmethod
    def compute(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
        """The operation itself."""
        raise NotImplementedError


def _sum(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    return np.sum(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _mean(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    need(x.dtype.kind == "f", f"the mean of {x.dtype} is not supported")
    return np.mean(x, axis=axes, keepdims=keep)


def _prod(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    return np.prod(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _norm1(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    return _sum(np.abs(x), axes, keep)


def _norm2(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    return np.sqrt(_sum(x * x, axes, keep))


family(
    {
        "ReduceSum": (_sum, "The sum (OpenVINO ReduceSum-1)."),
        "ReduceMean": (_mean, "The mean (OpenVINO ReduceMean-1)."),
        "ReduceProd": (_prod, "The product (OpenVINO ReduceProd-1)."),
        "ReduceMax": (lambda x, a, k: np.max(x, axis=a, keepdims=k), "The largest (OpenVINO ReduceMax-1)."),
        "ReduceMin": (lambda x, a, k: np.min(x, axis=a, keepdims=k), "The smallest (OpenVINO ReduceMin-1)."),
        "ReduceL1": (_norm1, "The sum of absolute values (OpenVINO ReduceL1-4)."),
        "ReduceL2": (_norm2, "The root of the sum of squares (OpenVINO ReduceL2-4)."),
        "ReduceLogicalAnd": (lambda x, a, k: np.all(x, axis=a, keepdims=k), "Whether all are true."),
        "ReduceLogicalOr": (lambda x, a, k: np.any(x, axis=a, keepdims=k), "Whether one is true."),
    },
    Reduction,
    __name__,
)


@layer("CumSum")
class CumSum(Operation):
    """Running sums along an axis.

    Source: OpenVINO, CumSum-3.
    """

    exclusive: bool = attribute("bool", False, doc="each sum leaves out its own element")
    reverse: bool = attribute("bool", False, doc="from the end")

    def forward(self, x: Any, axis: Any = 0) -> Any:
        along = axis_of(whole(np.asarray(axis) if isinstance(axis, int) else axis, "axis")[0], len(x.shape))
        y = np.flip(x, along) if self.reverse else x
        total = np.cumsum(y, axis=along, dtype=x.dtype)
        if self.exclusive:
            total = total - y
        return np.flip(total, along) if self.reverse else total
