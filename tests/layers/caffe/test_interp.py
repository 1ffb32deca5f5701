"""Interp."""

import numpy as np

from tests.layers.harness import case, noise, ramp, reads, refuses, rejects

SMALL = [[[[1, 2], [3, 4]]]]
GROWN = [[[[1, 1.5, 2], [2, 2.5, 3], [3, 3.5, 4]]]]


def bilinear(x, rows, columns):
    """Resize with aligned corners one pixel at a time, as the C code does."""
    n, c, h, w = x.shape
    y = np.zeros((n, c, rows, columns), np.float32)
    one = np.float32(1)
    rh = np.float32(h - 1) / np.float32(rows - 1) if rows > 1 else np.float32(0)
    rw = np.float32(w - 1) / np.float32(columns - 1) if columns > 1 else np.float32(0)
    for i in range(rows):
        for j in range(columns):
            a, b = rh * np.float32(i), rw * np.float32(j)
            r, s = int(a), int(b)
            a, b = a - np.float32(r), b - np.float32(s)
            p, q = int(r < h - 1), int(s < w - 1)
            top = (one - b) * x[:, :, r, s] + b * x[:, :, r, s + q]
            bottom = (one - b) * x[:, :, r + p, s] + b * x[:, :, r + p, s + q]
            y[:, :, i, j] = (one - a) * top + a * bottom
    return y


test_size = case("Interp", {"height": 3, "width": 3}, inputs=[SMALL], outputs=[GROWN])
test_second_input_gives_the_size = case("Interp", inputs=[SMALL, ramp(2, 5, 3, 3)], outputs=[GROWN])
test_zoom = case(
    "Interp", {"zoom_factor": 2}, inputs=[noise(2, 3, 4, 5)], outputs=[bilinear(noise(2, 3, 4, 5), 7, 9)]
)
test_zoom_8 = case(
    "Interp", {"zoom_factor": 8}, inputs=[ramp(1, 1, 65, 1)], outputs=[ramp(1, 1, 513, 1, step=0.125)]
)
test_shrink = case(
    "Interp", {"shrink_factor": 2}, inputs=[ramp(1, 1, 33, 33)], outputs=[ramp(1, 1, 33, 33)[:, :, ::2, ::2]]
)
test_shrink_zoom = case(
    "Interp",
    {"shrink_factor": 2, "zoom_factor": 2},
    inputs=[noise(1, 2, 5, 7)],
    outputs=[noise(1, 2, 5, 7)],
)
test_size_with_both_factors = case(
    "Interp",
    {"shrink_factor": 2, "zoom_factor": 3, "height": 4, "width": 6},
    inputs=[noise(1, 2, 5, 7)],
    outputs=[bilinear(noise(1, 2, 5, 7), 4, 6)],
)
test_zoom_beats_size = case(
    "Interp",
    {"zoom_factor": 2, "height": 10, "width": 10},
    inputs=[SMALL],
    outputs=[GROWN],
    notes=["height and width are ignored: zoom_factor is written"],
)
test_pads_crop = case(
    "Interp",
    {"pad_beg": -1, "pad_end": -2, "height": 7, "width": 7},
    inputs=[noise(1, 2, 8, 9)],
    outputs=[bilinear(noise(1, 2, 8, 9)[:, :, 1:6, 1:7], 7, 7)],
)
test_same_size = case("Interp", {"height": 4, "width": 5}, inputs=[ramp(1, 1, 4, 5)], outputs=[ramp(1, 1, 4, 5)])
test_one_row = case("Interp", {"height": 1, "width": 3}, inputs=[ramp(1, 1, 2, 3)], outputs=[ramp(1, 1, 1, 3)])
test_of_one_pixel = case(
    "Interp", {"height": 2, "width": 3}, inputs=[[[[[7]]]]], outputs=[np.full((1, 1, 2, 3), 7.0)]
)
test_full_zoom = case(
    "Interp", {"full_zoom_factor": 2}, inputs=[noise(1, 1, 3, 4)], outputs=[bilinear(noise(1, 1, 3, 4), 6, 8)]
)
test_opencv = case("Interp", {"zoom_factor": 2}, dialect="opencv", inputs=[SMALL], outputs=[GROWN])
test_model_optimizer_zoom = case(
    "Interp",
    {"zoom_factor": 2},
    dialect="model-optimizer",
    inputs=[noise(1, 1, 3, 4)],
    outputs=[bilinear(noise(1, 1, 3, 4), 6, 8)],
)
test_model_optimizer_shrink = case(
    "Interp",
    {"shrink_factor": 2, "zoom_factor": 1},
    dialect="model-optimizer",
    inputs=[ramp(1, 1, 5, 5)],
    outputs=[ramp(1, 1, 5, 5)[:, :, ::2, ::2]],
)
test_model_optimizer_factor_of_one_is_absent = case(
    "Interp",
    {"zoom_factor": 1, "height": 3, "width": 3},
    dialect="openvino",
    inputs=[SMALL],
    outputs=[GROWN],
)
test_model_optimizer_both = case(
    "Interp",
    {"zoom_factor": 3, "shrink_factor": 2},
    dialect="openvino",
    inputs=[noise(1, 1, 4, 4)],
    outputs=[bilinear(noise(1, 1, 4, 4), 5, 5)],
)
test_large_odd_ratio = case(
    "Interp",
    {"height": 60, "width": 47},
    inputs=[noise(1, 1, 6, 13)],
    outputs=[bilinear(noise(1, 1, 6, 13), 60, 47)],
)

test_rejects_input_without_4_axes = rejects(
    "Interp", {"zoom_factor": 2}, inputs=[[[1, 2]]], text="must be of shape (N, C, H, W), got (1, 2)"
)
test_rejects_size_input_without_4_axes = rejects(
    "Interp", inputs=[SMALL, [1, 2]], text="input 1 must be of shape (N, C, H, W), got (2,)"
)
test_opencv_has_no_shrink = rejects(
    "Interp", {"shrink_factor": 2}, dialect="opencv", inputs=[SMALL], text="OpenCV's Interp has no shrink_factor"
)
test_opencv_has_no_pad = rejects(
    "Interp",
    {"pad_beg": -1, "height": 2, "width": 2},
    dialect="opencv",
    inputs=[SMALL],
    text="OpenCV's Interp has no pad_beg",
)
test_model_optimizer_has_no_full_zoom = rejects(
    "Interp",
    {"full_zoom_factor": 2},
    dialect="model-optimizer",
    inputs=[SMALL],
    text="the Model Optimizer's Interp has no full_zoom_factor",
)
test_refusals = refuses(
    "Interp",
    {
        "needs_a_size": ({}, "the size is missing: give height and width, zoom_factor or"),
        "needs_both_sides": ({"height": 3}, "the size is missing"),
        "positive_pad": (
            {"pad_beg": 1, "height": 3, "width": 3},
            "pad_beg must be 0 or negative (it crops), got 1",
        ),
        "pads_that_leave_no_input": (
            {"pad_end": -2, "zoom_factor": 2},
            "pad_beg=0 and pad_end=-2 leave nothing of 2 x 2",
        ),
        "zoom_is_positive": ({"zoom_factor": 0}, "zoom_factor must be at least 1, got 0"),
        "shrink_is_positive": ({"shrink_factor": -1}, "shrink_factor must be at least 1, got -1"),
        "empty_output": ({"height": 0, "width": 3}, "the output must have 1..32768 rows and columns, got 0 x 3"),
        "output_with_too_many_rows": (
            {"height": 2000000000, "width": 2},
            "1..32768 rows and columns, got 2000000000 x 2",
        ),
        "output_with_too_many_pixels": (
            {"height": 32768, "width": 32768},
            "the output must have at most 134217728 pixels, got 32768 x 32768",
        ),
        "unknown_field": ({"zoom": 2}, "zoom"),
    },
    inputs=[SMALL],
)
test_from_text = reads(
    """layer { name: "up" type: "Interp" bottom: "in0" top: "up"
         interp_param { pad_beg: -1 pad_end: -2 height: 7 width: 9 } }""",
    pad_beg=-1,
    pad_end=-2,
    height=7,
    width=9,
    zoom_factor=1,
)
