"""Upsample: four operators."""

import numpy as np

from tests.layers.caffe.test_interp import bilinear
from tests.layers.harness import case, noise, ramp, reads, rejects

X = ramp(1, 2, 2, 3)
TWICE = X.repeat(2, 2).repeat(2, 3)

test_stride = case("Upsample", {"stride": 2}, inputs=[X], outputs=[TWICE])
test_scale_multiplies = case("Upsample", {"stride": 2, "scale": 0.5}, inputs=[X], outputs=[TWICE * 0.5])
test_strides = case("Upsample", {"stride_h": 1, "stride_w": 3}, inputs=[X], outputs=[X.repeat(3, 3)])
test_one_stride_leaves_the_other_2 = case(
    "Upsample", {"stride_h": 3}, inputs=[X], outputs=[X.repeat(3, 2).repeat(2, 3)]
)
test_stride_wins = case("Upsample", {"stride": 2, "stride_h": 5}, inputs=[X], outputs=[TWICE])
test_ascend_default = case("Upsample", dialect="ascend", inputs=[X], outputs=[TWICE])
test_ascend_scale_alone = case(
    "Upsample",
    {"scale": 3},
    dialect="ascend",
    inputs=[X],
    outputs=[TWICE * 3],
    notes=["scale=3 multiplies the values; the size is 2 x 2 times the input's"],
)
test_half_can_only_multiply = case("Upsample", {"scale": 0.5}, inputs=[X], outputs=[TWICE * 0.5])
test_darknet_sums = case(
    "Upsample",
    {"stride": -2, "scale": 0.5},
    dialect="darknet",
    inputs=[ramp(1, 1, 4, 4)],
    outputs=[[[[[5, 9], [21, 25]]]]],
)
test_seven = case("Upsample", {"stride": 7}, inputs=[X], outputs=[X.repeat(7, 2).repeat(7, 3)])
test_forty_one = case("Upsample", {"stride": 41}, inputs=[X], outputs=[X.repeat(41, 2).repeat(41, 3)])

test_spatial = case(
    "Upsample", {"scale": 3}, dialect="mobilenet-yolo", inputs=[X], outputs=[X.repeat(3, 2).repeat(3, 3)]
)
test_spatial_default = case("Upsample", dialect="mobilenet-yolo", inputs=[X], outputs=[X])
test_spatial_caffe2onnx = case("Upsample", {"scale": 2.0}, dialect="caffe2onnx", inputs=[X], outputs=[TWICE])
test_spatial_rank_3 = case("Upsample", {"scale": 2}, dialect="mobilenet-yolo", inputs=[X[0]], outputs=[TWICE[0]])

UNPOOLED = np.zeros((1, 2, 4, 4), np.float32)
UNPOOLED[0, 0, 0, 1], UNPOOLED[0, 0, 1, 2], UNPOOLED[0, 0, 3, 0], UNPOOLED[0, 0, 2, 3] = 1, 2, 3, 4
UNPOOLED[0, 1, 0, 0], UNPOOLED[0, 1, 0, 2], UNPOOLED[0, 1, 2, 0], UNPOOLED[0, 1, 2, 2] = 5, 6, 7, 8
POOLED = [[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]
MASK = [[[[1, 6], [12, 11]], [[0, 2], [8, 10]]]]
SIX = np.pad(UNPOOLED, [(0, 0), (0, 0), (0, 0), (0, 2)])
MASK_OF_SIX = [[[[1, 8], [18, 15]], [[0, 2], [12, 14]]]]
test_unpool = case("Upsample", {"scale": 2}, inputs=[POOLED, MASK], outputs=[UNPOOLED])
test_unpool_default_scale = case("Upsample", dialect="segnet", inputs=[POOLED, MASK], outputs=[UNPOOLED])
test_unpool_size = case(
    "Upsample", {"upsample_h": 4, "upsample_w": 6}, inputs=[POOLED, MASK_OF_SIX], outputs=[SIX]
)
test_unpool_scales = case("Upsample", {"scale_h": 2, "scale_w": 3}, inputs=[POOLED, MASK_OF_SIX], outputs=[SIX])
test_unpool_pad_out = case(
    "Upsample",
    {"scale": 2, "pad_out_h": True, "pad_out_w": True},
    inputs=[[[[[1, 2]]]], [[[[0, 2]]]]],
    outputs=[[[[[1, 0, 2]]]]],
)

test_to_size_bilinear = case(
    "Upsample", {"height": 4, "width": 5}, inputs=[noise(1, 2, 3, 3)], outputs=[bilinear(noise(1, 2, 3, 3), 4, 5)]
)
test_to_scale_nearest = case(
    "Upsample", {"height_scale": 2, "width_scale": 2, "mode": "NEAREST"}, inputs=[X], outputs=[TWICE]
)
test_to_size_nearest = case(
    "Upsample",
    {"height": 3, "width": 4, "mode": "NEAREST"},
    inputs=[X],
    outputs=[X[:, :, [0, 0, 1]][:, :, :, [0, 0, 1, 2]]],
)
test_to_input_1 = case("Upsample", {"mode": "NEAREST"}, inputs=[X, ramp(1, 1, 4, 6)], outputs=[TWICE])
test_to_input_1_by_dialect = case(
    "Upsample",
    dialect="caffe-plus",
    inputs=[noise(1, 2, 3, 3), ramp(1, 1, 5, 4)],
    outputs=[bilinear(noise(1, 2, 3, 3), 5, 4)],
)

AMBIGUOUS = (
    "'Upsample' can mean 2 things, give dialect=...: ascend or darknet: Repeat each pixel `stride` x `stride`"
)
test_scale_alone_is_ambiguous = rejects("Upsample", {"scale": 2}, inputs=[X], text=AMBIGUOUS)
test_scale_1_is_ambiguous = rejects("Upsample", {"scale": 1}, inputs=[X], text=AMBIGUOUS)
test_nothing_is_ambiguous = rejects("Upsample", inputs=[X], text=AMBIGUOUS)
test_two_bare_inputs_are_ambiguous = rejects(
    "Upsample",
    inputs=[X, X],
    text="'Upsample' can mean 2 things, give dialect=...: segnet or synopsys: Undo a maximum pooling",
)
test_rejects_field_of_no_dialect = rejects(
    "Upsample", {"factor": 2}, inputs=[X], text="upsample_param has no field 'factor'"
)
test_rejects_scale_without_stride_that_two_dialects_read_differently = rejects(
    "Upsample",
    {"scale": 2},
    dialect="darknet",
    inputs=[X],
    text="scale=2 without stride multiplies the values in Darknet, and is the size's factor in what",
)
test_stride_is_positive = rejects("Upsample", {"stride": 0}, inputs=[X], text="stride must be positive, got 0 x 0")
test_ascend_has_no_negative_stride = rejects(
    "Upsample", {"stride": -2}, dialect="ascend", inputs=[X], text="stride must be positive, got -2 x -2"
)
test_darknet_stride_divides = rejects(
    "Upsample", {"stride": -2}, dialect="darknet", inputs=[X], text="stride=-2 does not divide 2 x 3"
)
test_rejects_ascend_input_without_4_axes = rejects(
    "Upsample", {"stride": 2}, inputs=[[1, 2]], text="input 0 must be of shape (N, C, H, W), got (2,)"
)
test_rejects_huge_output = rejects(
    "Upsample", {"stride": 100000}, inputs=[X], text="1..32768 rows and columns, got 200000 x 300000"
)
test_spatial_scale_is_whole = rejects(
    "Upsample",
    {"scale": 1.5},
    dialect="caffe2onnx",
    inputs=[X],
    text="scale must be an integer of at least 1, got 1.5",
)
test_caffe2onnx_needs_a_scale = rejects("Upsample", dialect="caffe2onnx", inputs=[X], text="of at least 1, got 0")
test_rejects_input_without_spatial_axes = rejects(
    "Upsample",
    {"scale": 2},
    dialect="mobilenet-yolo",
    inputs=[[1, 2]],
    text="must be of shape (..., H, W), got (2,)",
)
test_rejects_mask_of_other_shape = rejects(
    "Upsample",
    {"scale": 2},
    inputs=[POOLED, X],
    text="the mask (input 1) must be of shape (1, 2, 2, 2), as input 0, got (1, 2, 2, 3)",
)
test_rejects_unpooling_scale_of_1 = rejects(
    "Upsample", {"scale": 1}, inputs=[POOLED, MASK], text="the scale must be at least 2, got 1 x 1"
)
test_unpool_pad_out_needs_2 = rejects(
    "Upsample",
    {"scale": 3, "pad_out_h": True},
    inputs=[POOLED, MASK],
    text="pad_out_h and pad_out_w go with a scale of 2, got 3 x 3",
)
test_rejects_unpooling_with_scale_h_alone = rejects(
    "Upsample",
    {"scale_h": 2},
    inputs=[POOLED, MASK],
    text="give upsample_h and upsample_w, or scale, or scale_h and scale_w",
)
test_unpool_size_is_2 = rejects(
    "Upsample",
    {"upsample_h": 1, "upsample_w": 4},
    inputs=[POOLED, MASK],
    text="upsample_h and upsample_w must be at least 2, got 1 and 4",
)
test_to_needs_a_size = rejects(
    "Upsample",
    {"height": 4},
    dialect="caffe-plus",
    inputs=[X],
    text="the size is missing: give height and width, height_scale",
)
test_to_size_is_2 = rejects(
    "Upsample", {"height": 1, "width": 4}, inputs=[X], text="height and width must be at least 2, got 1 and 4"
)
test_to_scale_is_2 = rejects(
    "Upsample",
    {"height_scale": 1, "width_scale": 4},
    inputs=[X],
    text="height_scale and width_scale must be at least 2, got 1 and 4",
)
test_ascend_text = reads(
    """layer { name: "up" type: "Upsample" bottom: "in0" top: "up" upsample_param { scale: 1 stride: 2 } }""",
    scale=1.0,
    stride=2,
    stride_h=2,
)
test_unpool_text = reads(
    """layer { name: "up" type: "Upsample" bottom: "in0" bottom: "in1" top: "up"
         upsample_param { scale: 2 pad_out_h: true } }""",
    inputs=2,
    scale=2,
    pad_out_h=True,
    upsample_h=0,
)

test_sophgo_repeats = case(
    "Upsample", {"scale": 2}, dialect="sophgo", inputs=[[[[[1, 2]]]]], outputs=[[[[[1, 1, 2, 2], [1, 1, 2, 2]]]]]
)
test_sophgo_undoes_a_pooling = case(
    "Upsample", {"scale": 2}, dialect="sophgo", inputs=[[[[[5]]]], [[[[2]]]]], outputs=[[[[[0, 0], [5, 0]]]]]
)
test_sophgo_rejects_sizes_without_a_mask = rejects(
    "Upsample",
    {"upsample_h": 2, "upsample_w": 4},
    dialect="sophgo",
    inputs=[[[[[1, 2]]]]],
    text="upsample_h and upsample_w with one input: Sophgo's Caffe reads wrong elements; give scale alone",
)
