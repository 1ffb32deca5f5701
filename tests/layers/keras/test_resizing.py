"""Tests of resizing, cropping to the center, and upsampling."""

from tests.layers.harness import ramp, refuses, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("resizing"))

test_refusals = refuses(
    "Resizing",
    {
        "unknown_interpolation": (
            {"height": 2, "interpolation": "cubic"},
            "parameter 'interpolation' must be one of nearest, bilinear",
        ),
        "height_zero": ({"height": 0}, "height and width must be positive, got 0, 2"),
        "unknown_fill_mode": ({"height": 2, "fill_mode": "edge"}, "fill_mode must be 'constant', got 'edge'"),
    },
    params={"width": 2},
    format="keras",
    inputs=[ramp(1, 4, 4, 1)],
)
test_center_crop_rejects_input_of_other_rank = rejects(
    "CenterCrop",
    {"height": 2, "width": 2},
    inputs=[ramp(4, 4, 1)],
    text="takes images of rank 4, got (4, 4, 1)",
    format="keras",
)
