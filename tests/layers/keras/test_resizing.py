"""Resizing, CenterCrop, UpSampling."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("resizing"))

test_interpolation_refused = rejects(
    "Resizing",
    {"height": 2, "width": 2, "interpolation": "cubic"},
    inputs=[ramp(1, 4, 4, 1)],
    text="parameter 'interpolation' must be one of nearest, bilinear",
    format="keras",
)
test_size_refused = rejects(
    "Resizing",
    {"height": 0, "width": 2},
    inputs=[ramp(1, 4, 4, 1)],
    text="height and width must be positive, got 0, 2",
    format="keras",
)
test_fill_mode_refused = rejects(
    "Resizing",
    {"height": 2, "width": 2, "fill_mode": "edge"},
    inputs=[ramp(1, 4, 4, 1)],
    text="fill_mode must be 'constant', got 'edge'",
    format="keras",
)
test_rank_refused = rejects(
    "CenterCrop",
    {"height": 2, "width": 2},
    inputs=[ramp(4, 4, 1)],
    text="takes pictures of rank 4, got (4, 4, 1)",
    format="keras",
)
