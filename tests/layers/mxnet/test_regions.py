"""Tests of MXNet's proposals of regions, and of their pooling."""

from __future__ import annotations

import numpy as np

from tests.layers.harness import case, noise, refuses

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "_contrib_Proposal",
    "_contrib_MultiProposal",
    "ROIPooling",
    "_contrib_ROIAlign",
    "_contrib_PSROIPooling",
    "_contrib_DeformablePSROIPooling",
    file="detection",
)
_MAPS = [noise(1, 4, 3, 3), noise(1, 8, 3, 3), np.array([[48, 48, 1]], np.float32)]
test_proposals_refuse = refuses(
    "_contrib_Proposal",
    {
        "anchors": ({"ratios": [1]}, "cls_prob must be of shape (1, 2, H, W) for 1 anchors (ratio x scale)"),
        "batch": ({}, "cls_prob must be of shape (1, 4, H, W) for 2 anchors (ratio x scale), got (2, 4, 3, 3)",
            {"inputs": [noise(2, 4, 3, 3), noise(2, 8, 3, 3), noise(2, 3)]}),
        "deltas": ({}, "bbox_pred must be of shape (1, 8, 3, 3)", {"inputs": [_MAPS[0], *_MAPS[::2]]}),
        "info": ({}, "im_info must be of shape (1, 3), got (1, 2)", {"inputs": [*_MAPS[:2], noise(1, 2)]}),
        "dtype": ({}, "only float32 is supported, got float16",
            {"inputs": [*_MAPS[:2], np.zeros((1, 3), np.float16)]}),
        "ratio": ({"ratios": [0, 1]}, "needs scales, and ratios above 0"),
        "no scale": ({"scales": []}, "needs scales, and ratios above 0"),
        "regions": ({"rpn_post_nms_top_n": 0}, "rpn_post_nms_top_n must be at least 1, got 0"),
        "stride": ({"feature_stride": 0}, "feature_stride must be at least 1, got 0"),
    },
    params={"scales": [8], "ratios": [0.5, 1]},
    inputs=_MAPS,
    format="mxnet",
)  # fmt: skip
test_region_of_negative_image_is_zero = case(
    "_contrib_ROIAlign",
    {"pooled_size": [1, 1], "spatial_scale": 1.0, "sample_ratio": 1},
    inputs=[np.full((1, 1, 4, 4), 3, np.float32), [[0, 0, 0, 2, 2], [-1, 0, 0, 2, 2]]],
    outputs=[[[[[3]]], [[[0]]]]],
    format="mxnet",
)
_REGIONS = np.array([[0, 1, 1, 5, 5]], np.float32)
_POOL = {"params": {"pooled_size": [2, 2], "spatial_scale": 0.5}, "inputs": [noise(1, 3, 6, 6), _REGIONS]}
test_pooling_refuses = refuses(
    "ROIPooling",
    {
        "size": ({"pooled_size": [2]}, "size must be 1 or 2 numbers, got 1"),
        "columns": ({}, "rois must be of shape (K, 5)", {"inputs": [noise(1, 3, 6, 6), noise(1, 4)]}),
    },
    format="mxnet",
    **_POOL,
)
test_align_refuses = refuses(
    "_contrib_ROIAlign",
    {
        "channels": ({"position_sensitive": True}, "needs a multiple of 4 channels (pooled_size), got 3"),
        "columns": ({}, "rois must be of shape (R, 5)", {"inputs": [noise(1, 3, 6, 6), noise(1, 4)]}),
        "no image": ({}, "region 0 names image 1 of a batch of 1", {"inputs": [noise(1, 3, 6, 6), _REGIONS + 1]}),
    },
    format="mxnet",
    **_POOL,
)
_BINS = {"spatial_scale": 1.0, "output_dim": 2, "pooled_size": 2, "group_size": 2}
test_sensitive_pooling_refuses = refuses(
    "_contrib_PSROIPooling",
    {
        "channels": ({"output_dim": 3}, "output_dim=3 with group_size=2 needs 12 channels, got 8"),
        "columns": ({}, "rois must be of shape (R, 5)", {"inputs": [noise(1, 8, 6, 6), noise(1, 4)]}),
        "size": ({"pooled_size": -1}, "needs positive sizes, got output_dim=2, group_size=2 and -1 bins"),
    },
    format="mxnet",
    params=_BINS,
    inputs=[noise(1, 8, 6, 6), _REGIONS],
)
test_moved_pooling_refuses = refuses(
    "_contrib_DeformablePSROIPooling",
    {
        "no moves": ({}, "no_trans=False needs a third input, trans", {"inputs": [noise(1, 8, 6, 6), _REGIONS]}),
        "parts": ({"part_size": 3}, "trans must be of shape (1, 2, 3, 3), got (1, 2, 2, 2)"),
        "classes": (
            {},
            "output_dim=2 is not a multiple of 3 classes",
            {"inputs": [noise(1, 8, 6, 6), _REGIONS, noise(1, 6, 2, 2)]},
        ),
        "samples": ({"sample_per_part": 0}, "sample_per_part must be at least 1, got 0"),
    },
    format="mxnet",
    params=_BINS,
    inputs=[noise(1, 8, 6, 6), _REGIONS, noise(1, 2, 2, 2)],
)
test_region_of_no_image_is_zero = case(
    "_contrib_DeformablePSROIPooling",
    {"spatial_scale": 1.0, "output_dim": 1, "pooled_size": 1, "group_size": 1, "no_trans": True},
    inputs=[np.full((1, 1, 4, 4), 3, np.float32), [[0, 0, 0, 2, 2], [-1, 0, 0, 2, 2]]],
    outputs=[[[[[3]]], [[[0]]]]],
    format="mxnet",
)
