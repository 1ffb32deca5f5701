"""The precision of written files: float32, or float16 where that loses little."""

from __future__ import annotations

import numpy as np

from anylayer.errors import InputError, nearest, need
from anylayer.graph import Graph
from anylayer.numerics import DEEP_HALF_TOLERANCE

PRECISIONS = ("float32", "float16")
FLOAT16_TOLERANCE = DEEP_HALF_TOLERANCE
IN_FLOAT32 = (
    *("Softmax", "LogSoftmax", "Exp", "Log", "Pow", "Sqrt", "Reciprocal", "Div", "Erf", "CumSum", "LRN"),
    *("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"),
    *("InstanceNormalization", "LayerNormalization", "GroupNormalization", "MeanVarianceNormalization"),
    *("Resize", "GridSample", "RoiAlign", "Range", "Floor", "Ceil", "Round", "Mod", "Equal", "Less", "Greater"),
    *("LessOrEqual", "GreaterOrEqual", "ArgMax", "ArgMin", "ScatterElements", "ScatterND", "LSTM", "GRU", "RNN"),
)
"""Operators that stay in float32: those that sum many values or square them, those whose results jump, and the
coordinates of boxes and samples."""


def need_precision(precision: str) -> None:
    """Raise InputError for a precision that no file has."""
    rule = f"there is no precision '{precision}'{nearest(precision, PRECISIONS)}"
    need(precision in PRECISIONS, f"{rule}; precisions: {', '.join(PRECISIONS)}", InputError)


def too_large(graph: Graph) -> list[str]:
    """Return the names of the operators of which a weight is beyond the largest number of float16, 65504."""
    limit = float(np.finfo(np.float16).max)
    return [
        o.place or o.op
        for o in graph.ops
        for v in o.inputs
        if v is not None and v.const is not None and v.const.dtype == np.float32 and _largest(v.const) > limit
    ]


def _largest(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
    finite = array[np.isfinite(array)]
    return float(np.abs(finite).max(initial=0.0))
