"""Tests of resizing, cropping to the center, and upsampling."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("resizing"))

test_rejects_unknown_interpolation = rejects(
    "Resizing",
    {"height": 2, "width": 2, "interpolation": "cubic"},
    inputs=[ramp(1, 4, 4, 1)],
    text="parameter 'interpolation' must be one of nearest, bilinear",
    format="keras",
)
test_rejects_height_zero = rejects(
    "Resizing",
    {"height": 0, "width": 2},
    inputs=[ramp(1, 4, 4, 1)],
    text="height and width must be positive, got 0, 2",
    format="keras",
)
test_rejects_unknown_fill_mode = rejects(
    "Resizing",
    {"height": 2, "width": 2, "fill_mode": "edge"},
    inputs=[ramp(1, 4, 4, 1)],
    text="fill_mode must be 'constant', got 'edge'",
    format="keras",
)
test_center_crop_rejects_input_of_other_rank = rejects(
    "CenterCrop",
    {"height": 2, "width": 2},
    inputs=[ramp(4, 4, 1)],
    text="takes images of rank 4, got (4, 4, 1)",
    format="keras",
)
