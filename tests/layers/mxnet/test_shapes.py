"""Tests of MXNet's operators that reshape, rearrange, slice and repeat."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "Flatten", "Reshape", "reshape_like", "transpose", "SwapAxis", "expand_dims", "squeeze", "slice", "slice_axis",
    "slice_like", "SliceChannel", "Concat", "stack", "tile", "repeat", "reverse", "broadcast_to", "broadcast_axis",
    "broadcast_like", "_zeros", "_ones", "_contrib_arange_like", "_arange", "shape_array", "size_array",
    "_split_v2", "_eye", "_full", "_linspace", "diag", "_contrib_index_array", "_slice_assign",
    "_slice_assign_scalar",
)  # fmt: skip
