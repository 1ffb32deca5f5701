"""Casts between element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Array, attribute, need
from anylayer.layers._table import operators, row
from anylayer.layers.openvino._base import SAME_SHAPE, SPECIFICATION, OpenVINOLayer

DTYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "boolean": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip


def dtype_of(name: str, what: str) -> Any:
    """Return the NumPy dtype of an OpenVINO element type."""
    need(name in DTYPES, f"{what} '{name}' is not supported; types: {', '.join(DTYPES)}")
    return np.dtype(DTYPES[name])


def cast(x: Array, dtype: Any) -> Array:
    """Return `x` cast to `dtype`, or `x` itself when it has that dtype."""
    if x.dtype == dtype:
        return x
    return x != x.dtype.type(0) if dtype == np.bool_ else x.astype(dtype)


operators(
    OpenVINOLayer,
    f"{SAME_SHAPE}\n    {SPECIFICATION}",
    {
        "Convert": row("Cast the elements to destination_type; real numbers are truncated to integers.",
            lambda x, destination_type: cast(x, dtype_of(destination_type, "destination_type")), "Convert-1",
            destination_type=attribute("string")),
        "ConvertLike": row("Cast the elements to the dtype of the second input.",
            lambda x, like: cast(x, like.dtype), "ConvertLike-1"),
    },
)  # fmt: skip
