"""The precision of written files: float32, or float16 for operators that lose little by it."""

from __future__ import annotations

import numpy as np

from anylayer.errors import InputError, nearest, need
from anylayer.graph import Graph
from anylayer.numerics import DEEP_HALF_TOLERANCE, largest

PRECISIONS = ("float32", "float16")
FLOAT16_TOLERANCE = DEEP_HALF_TOLERANCE
IN_FLOAT32 = (
    *("Softmax", "LogSoftmax", "Exp", "Log", "Pow", "Sqrt", "Reciprocal", "Div", "Erf", "CumSum", "LRN"),
    *("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"),
    *("InstanceNormalization", "LayerNormalization", "GroupNormalization", "MeanVarianceNormalization"),
    *("Resize", "GridSample", "RoiAlign", "Range", "Floor", "Ceil", "Round", "Mod", "Equal", "Less", "Greater"),
    *("LessOrEqual", "GreaterOrEqual", "ArgMax", "ArgMin", "ScatterElements", "ScatterND", "LSTM", "GRU", "RNN"),
)
"""Operators that stay in float32: those that sum or square many values, those that are not continuous, and
those that compute coordinates of boxes and samples."""


def need_precision(precision: str) -> None:
    """Raise InputError for an unknown precision."""
    rule = f"there is no precision '{precision}'{nearest(precision, PRECISIONS)}"
    need(precision in PRECISIONS, f"{rule}; precisions: {', '.join(PRECISIONS)}", InputError)


def need_float16_weights(graph: Graph) -> None:
    """Raise InputError where a weight exceeds 65504, the largest number of float16."""
    limit = float(np.finfo(np.float16).max)
    for o in graph.ops:
        for v in o.inputs:
            if v is not None and v.const is not None and v.const.dtype == np.float32:
                rule = f"{o.place or o.op}: a weight exceeds {limit:.0f}, the largest number of float16"
                need(largest(v.const) <= limit, rule, InputError)
