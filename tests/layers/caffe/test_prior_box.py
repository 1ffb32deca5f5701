"""PriorBox."""

import numpy as np

from tests.layers.harness import case, ramp, reads, rejects

CELL, IMAGE = ramp(1, 1, 1, 1), ramp(1, 3, 8, 8)
VARIANCE = [0.1, 0.1, 0.2, 0.2]
BASIC = {"min_size": 4, "max_size": 9, "aspect_ratio": 2, "flip": True, "variance": VARIANCE}


def boxes(*corners, variance=VARIANCE):
    """Return (1, 2, M) for corners given as rows."""
    rows = np.array(corners, np.float64).reshape(-1, 4)
    return np.stack([rows.ravel(), np.tile(variance, len(rows))])[None]


def around(centre, sides, image):
    (x, y), (w, h) = centre, sides
    return [(x - w / 2) / image[1], (y - h / 2) / image[0], (x + w / 2) / image[1], (y + h / 2) / image[0]]


SQUARE, BIG = [0.25, 0.25, 0.75, 0.75], [0.125, 0.125, 0.875, 0.875]
WIDE = [0.14644661, 0.32322330, 0.85355339, 0.67677670]
TALL = [0.32322330, 0.14644661, 0.67677670, 0.85355339]

test_one_cell = case("PriorBox", BASIC, inputs=[CELL, IMAGE], outputs=[boxes(SQUARE, BIG, WIDE, TALL)])
test_ascend_is_ssd = case(
    "PriorBox", BASIC, dialect="ascend", inputs=[CELL, IMAGE], outputs=[boxes(SQUARE, BIG, WIDE, TALL)]
)
test_no_flip = case("PriorBox", {**BASIC, "flip": False}, inputs=[CELL, IMAGE], outputs=[boxes(SQUARE, BIG, WIDE)])
test_ratios_once = case(
    "PriorBox",
    {**BASIC, "aspect_ratio": [1, 2, 0.5, 2]},
    inputs=[CELL, IMAGE],
    outputs=[boxes(SQUARE, BIG, WIDE, TALL)],
)
test_seed_count = case(
    "PriorBox",
    {"min_size": 1, "max_size": 4, "aspect_ratio": [2, 3], "variance": 0.5},
    inputs=[CELL, IMAGE],
    outputs=[
        boxes(
            *(
                around((4, 4), (w, h), (8, 8))
                for w, h in [(1, 1), (2, 2)] + [(r**0.5, r**-0.5) for r in (2, 1 / 2, 3, 1 / 3)]
            ),
            variance=[0.5] * 4,
        )
    ],
)
test_two_sizes = case(
    "PriorBox",
    {"min_size": [2, 4], "max_size": [8, 9], "variance": VARIANCE},
    inputs=[CELL, IMAGE],
    outputs=[boxes(*(around((4, 4), (s, s), (8, 8)) for s in (2, 4, 4, 6)))],
)
test_sizes_are_cut = case(
    "PriorBox",
    {**BASIC, "min_size": 4.9, "max_size": 9.9},
    inputs=[CELL, IMAGE],
    outputs=[boxes(SQUARE, BIG, WIDE, TALL)],
)
test_order_and_steps = case(
    "PriorBox",
    {"min_size": 2, "step_h": 3, "step_w": 5, "offset": 0.25, "img_h": 10, "img_w": 20, "variance": VARIANCE},
    inputs=[ramp(1, 1, 2, 2), IMAGE],
    outputs=[boxes(*(around((x, y), (2, 2), (10, 20)) for y in (0.75, 3.75) for x in (1.25, 6.25)))],
)
test_img_size_and_step = case(
    "PriorBox",
    {"min_size": 2, "step": 4, "img_size": 16, "variance": VARIANCE},
    inputs=[ramp(1, 1, 1, 2), IMAGE],
    outputs=[boxes(*(around((x, 2), (2, 2), (16, 16)) for x in (2, 6)))],
)
test_step_from_the_image = case(
    "PriorBox",
    {"min_size": 2, "variance": VARIANCE},
    inputs=[ramp(3, 4, 2, 3), ramp(3, 3, 8, 6)],
    outputs=[boxes(*(around((x, y), (2, 2), (8, 6)) for y in (2, 6) for x in (1, 3, 5)))],
)
test_clip = case(
    "PriorBox",
    {"min_size": 10, "clip": True, "variance": VARIANCE},
    inputs=[CELL, IMAGE],
    outputs=[boxes([0, 0, 1, 1])],
)
test_default_variance = case(
    "PriorBox", {"min_size": 4}, inputs=[CELL, IMAGE], outputs=[boxes(SQUARE, variance=[0.1] * 4)]
)
test_opencv_does_not_cut = case(
    "PriorBox",
    {"min_size": 4.5, "variance": VARIANCE},
    dialect="opencv",
    inputs=[CELL, IMAGE],
    outputs=[boxes(around((4, 4), (4.5, 4.5), (8, 8)))],
)
test_opencv_clips = case(
    "PriorBox",
    {"min_size": 10, "variance": VARIANCE},
    dialect="opencv",
    inputs=[CELL, IMAGE],
    outputs=[boxes([0, 0, 1, 1])],
)
test_opencv_may_not_clip = case(
    "PriorBox",
    {"min_size": 10, "clip": False, "variance": VARIANCE},
    dialect="opencv",
    inputs=[CELL, IMAGE],
    outputs=[boxes(around((4, 4), (10, 10), (8, 8)))],
)
test_opencv_ignores_img_size = case(
    "PriorBox",
    {**BASIC, "img_size": 300},
    dialect="opencv",
    inputs=[CELL, IMAGE],
    outputs=[boxes(SQUARE, BIG, WIDE, TALL)],
    notes=["img_size, img_h and img_w are ignored, as in OpenCV"],
)
test_openvino_ignores_the_offset = case(
    "PriorBox",
    {**BASIC, "offset": 0.9, "img_size": 300, "step_h": 7, "step_w": 7},
    dialect="openvino",
    inputs=[CELL, IMAGE],
    outputs=[boxes(SQUARE, BIG, WIDE, TALL)],
    notes=["img_size, step_h, step_w ignored, as by the Model Optimizer"],
)
test_openvino_step = case(
    "PriorBox",
    {"min_size": 4.5, "offset": 0.25, "step": 4, "variance": VARIANCE},
    dialect="openvino",
    inputs=[CELL, IMAGE],
    outputs=[boxes(around((1, 1), (4.5, 4.5), (8, 8)))],
)


test_rejects_too_many_boxes = rejects(
    "PriorBox",
    {"min_size": [1] * 50},
    inputs=[ramp(1, 1, 600, 600), IMAGE],
    text="50 boxes per cell make 18000000 boxes, at most 16777216 are supported",
)


def refused(text, dialect=None, **changes):
    fields = {k: v for k, v in {**BASIC, **changes}.items() if v is not None}
    return rejects("PriorBox", fields, dialect=dialect, inputs=[CELL, IMAGE], text=text)


test_min_size_is_required = refused("parameter 'min_size' is missing", min_size=None, max_size=None)
test_min_size_is_positive = refused("min_size must be positive, got 0", min_size=0)
test_rejects_more_max_sizes_than_min_sizes = refused(
    "max_size must be given 0 or 1 times, once per min_size, got 2", max_size=[9, 10]
)
test_rejects_max_size_below_min_size = refused("max_size must exceed its min_size 4, got 3", max_size=3)
test_ratio_is_positive = refused("aspect_ratio must be positive, got 2, 0", aspect_ratio=[2, 0])
test_rejects_two_variances = refused("variance must be given 0, 1 or 4 times, got 2", variance=[0.1, 0.2])
test_variance_is_positive = refused("variance must be positive, got 0", variance=0)
test_rejects_img_size_and_img_h_together = refused(
    "give img_size, or img_h and img_w, not both", img_size=8, img_h=8, img_w=8
)
test_rejects_img_h_without_img_w = refused("img_h and img_w go together, got img_h=8 and img_w=0", img_h=8)
test_rejects_step_and_step_h_together = refused(
    "give step, or step_h and step_w, not both", step=8, step_h=8, step_w=8
)
test_rejects_step_w_without_step_h = refused("step_h and step_w go together, got step_h=0 and step_w=8", step_w=8)
test_step_is_not_negative = refused("step must be at least 0, got -1", step=-1)
test_rejects_opencv_without_variance = refused(
    "parameter 'variance' is missing; OpenCV has no default", "opencv", variance=None
)
test_rejects_opencv_with_list_of_widths = refused("width is not supported", "opencv", width=3, height=4)
test_rejects_unknown_field = refused("prior_box_param has no field 'box_width'", box_width=3)
test_rejects_feature_map_without_4_axes = rejects(
    "PriorBox", BASIC, inputs=[ramp(2, 2), IMAGE], text="input 0 must be of shape (N, C, H, W)"
)
test_rejects_image_without_4_axes = rejects(
    "PriorBox", BASIC, inputs=[CELL, ramp(2, 2)], text="input 1 must be of shape (N, C, H, W), got (2, 2)"
)
test_from_text = reads(
    """layer { name: "p" type: "PriorBox" bottom: "in0" bottom: "in1" top: "p" prior_box_param {
         min_size: 162.0 max_size: 213.0 aspect_ratio: 2 aspect_ratio: 3 flip: true clip: false
         variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 img_size: 300 step: 64 offset: 0.5 } }""",
    inputs=2,
    min_size=(162.0,),
    max_size=(213.0,),
    aspect_ratio=(2.0, 3.0),
    img_size=300,
    step=64.0,
)


def test_sophgo_leaves_out_the_squares() -> None:
    """Only the square of sqrt(min_size * max_size) and the boxes of other ratios remain."""
    fields = {"min_size": 4, "max_size": 9, "aspect_ratio": [2.0]}
    inputs = [np.zeros((1, 1, 1, 1), np.float32), np.zeros((1, 1, 8, 8), np.float32)]
    every, fewer = (
        case("PriorBox", {**fields, **more}, inputs=inputs, dialect="sophgo").case.bind()(inputs)[0][0, 0]
        for more in ({}, {"use_default_aspect_ratio": False})
    )
    np.testing.assert_array_equal(fewer, every[4:])


test_sophgo_needs_a_box = rejects(
    "PriorBox",
    {"min_size": 4, "use_default_aspect_ratio": False},
    dialect="sophgo",
    inputs=[np.zeros((1, 1, 1, 1)), np.zeros((1, 1, 8, 8))],
    text="use_default_aspect_ratio: false leaves no box",
)
