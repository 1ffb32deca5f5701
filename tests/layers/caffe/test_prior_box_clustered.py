"""PriorBoxClustered."""

from tests.layers.caffe.test_prior_box import CELL, IMAGE, VARIANCE, around, boxes
from tests.layers.harness import case, ramp, rejects

BASIC = {"width": [2, 3.5], "height": [4, 1.5], "variance": VARIANCE}
SIDES = [(2, 4), (3.5, 1.5)]

test_one_cell = case(
    "PriorBoxClustered", BASIC, inputs=[CELL, IMAGE], outputs=[boxes(*(around((4, 4), s, (8, 8)) for s in SIDES))]
)
test_step = case(
    "PriorBoxClustered",
    {**BASIC, "step": 16, "offset": 0.5, "flip": False, "clip": False},
    inputs=[ramp(1, 2, 2, 1), ramp(1, 3, 32, 16)],
    outputs=[boxes(*(around((8, y), s, (32, 16)) for y in (8, 24) for s in SIDES))],
)
test_clip = case(
    "PriorBoxClustered",
    {"width": 10, "height": 4, "clip": True, "variance": 0.1},
    inputs=[CELL, IMAGE],
    outputs=[boxes([0, 0.25, 1, 0.75], variance=[0.1] * 4)],
)
test_img_sides = case(
    "PriorBoxClustered",
    {"width": 2, "height": 4, "img_h": 10, "img_w": 20, "variance": VARIANCE},
    inputs=[CELL, IMAGE],
    outputs=[boxes(around((10, 5), (2, 4), (10, 20)))],
)
test_width_is_required = rejects(
    "PriorBoxClustered", {"height": 2}, inputs=[CELL, IMAGE], text="parameter 'width' is missing"
)
test_rejects_fewer_heights_than_widths = rejects(
    "PriorBoxClustered",
    {"width": [1, 2], "height": 3},
    inputs=[CELL, IMAGE],
    text="height must be given 2 times, once for each width, got 1",
)
test_sides_are_positive = rejects(
    "PriorBoxClustered",
    {"width": [1, 2], "height": [3, 0]},
    inputs=[CELL, IMAGE],
    text="width and height must be positive, got 1 x 3, 2 x 0",
)
