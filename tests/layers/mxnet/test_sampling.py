"""Tests of MXNet's operators that sample a map at given points."""

from __future__ import annotations

from tests.layers.harness import noise, refuses, rejects

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "BilinearSampler", "GridGenerator", "SpatialTransformer", "Correlation", "_contrib_DeformableConvolution",
    "_contrib_ModulatedDeformableConvolution", file="detection",
)  # fmt: skip
test_sampler_refuses_other_points = rejects(
    "BilinearSampler", {}, inputs=[noise(1, 3, 4, 4), noise(1, 4, 4, 2)], format="mxnet",
    text="grid must be of shape (1, 2, h, w), got (1, 4, 4, 2)",
)  # fmt: skip
_AFFINE = {"transform_type": "affine", "target_shape": [4, 5]}
test_grids_refuse = refuses(
    "GridGenerator",
    {
        "one row": ({"target_shape": [1, 5]}, "target_shape must be two sizes of at least 2, got (1, 5)"),
        "no size": ({"target_shape": [0, 0]}, "target_shape must be two sizes of at least 2, got (0, 0)"),
        "large": ({"target_shape": [40000, 5]}, "the output must have 1..32768 rows and columns, got 40000 x 5"),
        "map": ({}, "the affine map must be of shape (N, 6)", {"inputs": [noise(1, 5)]}),
        "flow": ({"transform_type": "warp"}, "the flow must be of shape (N, 2, H, W), got (1, 6)"),
        "thin": ({"transform_type": "warp"}, "needs a flow of at least 2 x 2, got 1 x 4",
            {"inputs": [noise(1, 2, 1, 4)]}),
    },
    params=_AFFINE,
    inputs=[noise(1, 6)],
    format="mxnet",
)  # fmt: skip
test_correlation_refuses = refuses(
    "Correlation",
    {
        "even": ({"kernel_size": 2}, "kernel_size must be odd, got 2"),
        "stride": ({"stride2": 0}, "stride2 must be at least 1, got 0"),
        "far": ({"max_displacement": 4}, "kernel_size=1 and max_displacement=4 do not fit a map of 5 x 5"),
    },
    inputs=[noise(1, 2, 5, 5), noise(1, 2, 5, 5)],
    format="mxnet",
)
test_deformable_convolution_refuses = refuses(
    "_contrib_DeformableConvolution",
    {
        "groups": ({"num_group": 3}, "group=3 and offset_group=1 must divide 4 channels"),
        "offset": ({"num_deformable_group": 2}, "offset must be of shape (1, 36, 3, 3), got (1, 18, 3, 3)"),
        "filters": ({"num_filter": 8}, "the weights must be of shape (8, 4, 3, 3), got (6, 4, 3, 3)"),
        "bias": ({"no_bias": False}, "no_bias is False, but there is no bias"),
        "axes": ({"kernel": [3]}, "kernel must be two numbers, got (3,)"),
        "layout": ({"layout": "NHWC"}, "layout"),
    },
    params={"kernel": [3, 3], "num_filter": 6, "no_bias": True},
    inputs=[noise(1, 4, 5, 5), noise(1, 18, 3, 3), noise(6, 4, 3, 3)],
    format="mxnet",
)
