"""Reductions and cumulative sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Array, attribute, need
from anylayer.layer.arguments import axis_in
from anylayer.layers._arrays import cumulative_sum, euclidean_norm, product, reduction, total
from anylayer.layers._table import computes, operators, row
from anylayer.layers.openvino._base import SPECIFICATION, OpenVINOLayer


def _norm1(x: Array, **how: Any) -> Array:
    return total(np.abs(x), **how)


def _mean(x: Array, **how: Any) -> Array:
    need(x.dtype.kind == "f", f"the mean needs real numbers, got {x.dtype}")
    return np.mean(x, **how)


operators(
    OpenVINOLayer,
    f"The axes are a constant. They are removed, or have size 1 with keep_dims.\n    {SPECIFICATION}",
    {
        name: computes(what, reduction(function, "axes"), f"{name}-{opset}")
        for name, what, function, opset in (
            ("ReduceSum", "the sum over the given axes", total, 1),
            ("ReduceMean", "the mean over the given axes", _mean, 1),
            ("ReduceProd", "the product over the given axes", product, 1),
            ("ReduceMax", "the maximum over the given axes", np.max, 1),
            ("ReduceMin", "the minimum over the given axes", np.min, 1),
            ("ReduceL1", "the sum of absolute values over the given axes", _norm1, 4),
            ("ReduceL2", "the square root of the sum of squares over the given axes", euclidean_norm, 4),
            ("ReduceLogicalAnd", "whether all elements along the axes are true", np.all, 1),
            ("ReduceLogicalOr", "whether any element along the axes is true", np.any, 1),
        )
    },
    attributes={"keep_dims": attribute("bool", False, doc="whether reduced axes are kept with size 1")},
)
operators(
    OpenVINOLayer,
    SPECIFICATION,
    {
        "CumSum": row("Compute the cumulative sum along an axis, a constant, 0 by default.",
            lambda x, axis=0, **how: cumulative_sum(x, axis_in(x, axis), **how), "CumSum-3",
            exclusive=attribute("bool", False, doc="whether element i is the sum of the elements before i"),
            reverse=attribute("bool", False, doc="whether the sum starts at the end")),
    },
)  # fmt: skip
