"""The kinds of ONNX's operators. No other list of names states them."""

from __future__ import annotations

from anylayer.graph.ir import Op

DISCONTINUOUS = frozenset(
    (
        *("Floor", "Ceil", "Round", "Sign", "Mod", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
        *("ArgMax", "ArgMin", "TopK", "Hardmax", "NonZero", "OneHot", "Compress", "Unique", "NonMaxSuppression"),
        *(
            "QuantizeLinear",
            "DynamicQuantizeLinear",
            "Shrink",
            "ThresholdedRelu",
            "Range",
            "MaxRoiPool",
            "BitCast",
        ),
    )
)
"""Operators of which a change in the last bit of a float input can change the result by any amount. Others are
discontinuous with some attributes or dtypes only: see is_discontinuous."""


def is_discontinuous(op: Op) -> bool:
    """Return whether a change in the last bit of a float input can change a result by any amount.

    Casts to integers and booleans, the indices of a maximum pooling and samples of the nearest cell count, too. An
    operator without float inputs does not, nor does an operator of another domain.
    """
    if op.domain or not any(v is not None and v.dtype.kind == "f" for v in op.inputs):
        return False
    if op.op == "Cast":
        return op.outputs[0].dtype.kind in "iub"
    if op.op == "GridSample":
        return bool(op["mode"] == "nearest")
    if op.op == "RoiAlign":  # without a ratio, the number of samples is the size of the bin, rounded up
        return not op["sampling_ratio"]
    return op.op in DISCONTINUOUS or (op.op == "MaxPool" and len(op.outputs) > 1)
