"""Convolution."""

import numpy as np

from anylayer.layer import Registry
from tests.layers.harness import Case, case, noise, ramp, reads, rejects

ONES = np.ones((1, 1, 3, 3), np.float32)
CROSS = np.float32([[[[0, 1, 0], [1, 1, 1], [0, 1, 0]]]])
X = ramp(1, 1, 3, 3)

test_pad_1 = case(
    "Convolution",
    {"num_output": 1, "kernel_size": 3, "pad": 1, "bias_term": False},
    inputs=[X],
    blobs=[ONES],
    outputs=[[[[[8, 15, 12], [21, 36, 27], [20, 33, 24]]]]],
)
test_bias_and_cross = case(
    "Convolution",
    {"num_output": 1, "kernel_size": 3},
    inputs=[X],
    blobs=[CROSS, [100]],
    outputs=[[[[[120]]]]],
)
test_stride_drops_the_rest = case(
    "Convolution",
    {"num_output": 1, "kernel_size": 1, "stride": 2, "bias_term": False},
    inputs=[ramp(1, 1, 4, 4)],
    blobs=[np.float32([[[[1]]]])],
    outputs=[[[[[0, 2], [8, 10]]]]],
)
test_height_and_width_apart = case(
    "Convolution",
    {
        "num_output": 1,
        "kernel_h": 1,
        "kernel_w": 2,
        "stride_h": 2,
        "stride_w": 1,
        "pad_h": 0,
        "pad_w": 1,
        "bias_term": False,
    },
    inputs=[X],
    blobs=[np.float32([[[[1, 10]]]])],
    outputs=[[[[[0, 10, 21, 2], [60, 76, 87, 8]]]]],
)
test_dilation = case(
    "Convolution",
    {"num_output": 1, "kernel_size": 2, "dilation": 2, "bias_term": False},
    inputs=[X],
    blobs=[np.ones((1, 1, 2, 2), np.float32)],
    outputs=[[[[[16]]]]],
)
test_group = case(
    "Convolution",
    {"num_output": 2, "kernel_size": 1, "group": 2, "bias_term": False},
    inputs=[[[[[1]], [[2]], [[3]], [[4]]]]],
    blobs=[np.float32([1, 10, 1, 10]).reshape(2, 2, 1, 1)],
    outputs=[[[[[21]], [[43]]]]],
)
test_a_kernel_that_overhangs_less_than_a_stride = case(
    "Convolution",
    {"num_output": 1, "kernel_size": 4, "stride": 2, "bias_term": False},
    inputs=[X],
    blobs=[np.ones((1, 1, 4, 4), np.float32)],
    outputs=[[[[[36]]]]],
)
test_three_spatial_axes = case(
    "Convolution",
    {"num_output": 1, "kernel_size": [1, 2, 2], "bias_term": False},
    inputs=[ramp(1, 1, 2, 2, 2)],
    blobs=[np.ones((1, 1, 1, 2, 2), np.float32)],
    outputs=[[[[[[6]], [[22]]]]]],
)
test_one_spatial_axis = case(
    "Convolution",
    {"num_output": 1, "kernel_size": 2, "bias_term": False},
    inputs=[ramp(1, 1, 4)],
    blobs=[np.float32([[[1, 10]]])],
    outputs=[[[[10, 21, 32]]]],
)
test_axes_before_the_channels_are_batches = case(
    "Convolution",
    {"num_output": 1, "kernel_size": 2, "axis": -2, "bias_term": False},
    inputs=[ramp(1, 2, 1, 3)],
    blobs=[np.float32([[[1, 10]]])],
    outputs=[[[[[10, 21]], [[43, 54]]]]],
)
test_no_spatial_axes = case(
    "Convolution",
    {"num_output": 2, "kernel_size": 1, "axis": 1},
    inputs=[[[1, 2, 3]]],
    blobs=[np.float32([[1, 0, 0], [1, 1, 1]]).reshape(2, 3), [0, 10]],
    outputs=[[[1, 16]]],
)
test_several_inputs = case(
    "Convolution",
    {"num_output": 1, "kernel_size": 3, "bias_term": False},
    inputs=[X, 2 * X],
    blobs=[ONES],
    outputs=[[[[[36]]]], [[[[72]]]]],
)
test_hole = case(
    "Convolution",
    {"num_output": 1, "kernel_size": 2, "hole": 2, "bias_term": False},
    inputs=[X],
    blobs=[np.ones((1, 1, 2, 2), np.float32)],
    outputs=[[[[[16]]]]],
)
test_hole_by_axis = case(
    "Convolution",
    {"num_output": 1, "kernel_size": 2, "hole_h": 2, "hole_w": 1, "bias_term": False},
    dialect="deeplab",
    inputs=[X],
    blobs=[np.ones((1, 1, 2, 2), np.float32)],
    outputs=[[[[[14, 18]]]]],
)
test_deeplab_without_hole = case(
    "Convolution",
    {"num_output": 1, "kernel_size": 2, "dilation": 2, "bias_term": False},
    dialect="deeplab",
    inputs=[X],
    blobs=[np.ones((1, 1, 2, 2), np.float32)],
    outputs=[[[[[16]]]]],
)


def test_weights_are_taken_as_they_lie() -> None:
    weights = noise(4, 2, 3, 3)
    bound = Case(
        "Convolution",
        {"num_output": 4, "kernel_size": 3, "bias_term": False},
        [noise(1, 2, 5, 5)],
        blobs=[weights],
    ).bind()
    assert np.shares_memory(bound.instance.blob(0, (4, 2, 3, 3)), weights)


def test_weights_without_filler_are_reported() -> None:
    bound = Case("Convolution", {"num_output": 1, "kernel_size": 3}, [X]).bind()
    bound([X])
    assert bound.unfilled == ["weights"]


def test_every_field_has_its_own_number() -> None:
    for definition in Registry.of("caffe").find("Convolution")[:1]:
        numbers = [f.number for f in definition.cls.fields.values() if not f.only]
        assert sorted(numbers) == list(range(1, 19))


def _rejects(text: str, inputs: list | None = None, tops: int = 1, **params: object):
    params = {"num_output": 4, "kernel_size": 3, **params}
    given = {k: v for k, v in params.items() if v is not None}
    return rejects(
        "Convolution", given, inputs=[ramp(1, 4, 5, 5)] if inputs is None else inputs, tops=tops, text=text
    )


test_rejects_kernel_size_and_kernel_h_together = _rejects(
    "give kernel_size, or kernel_h and kernel_w, not both", kernel_h=3, kernel_w=3
)
test_rejects_stride_and_stride_h_together = _rejects(
    "give stride, or stride_h and stride_w, not both", stride=2, stride_h=1
)
test_rejects_pad_and_pad_w_together = _rejects("give pad, or pad_h and pad_w, not both", pad=2, pad_w=1)
test_kernel_missing = _rejects(
    "kernel_size must be given once, or once for each of the 2 spatial axes, got 0", kernel_size=None
)
test_rejects_kernel_h_without_kernel_w = _rejects(
    "kernel sizes must be positive, got (3, 0)", kernel_size=None, kernel_h=3
)
test_rejects_more_kernel_sizes_than_spatial_axes = _rejects(
    "kernel_size must be given once, or once for each of the 2 spatial axes, got 3", kernel_size=[1, 2, 3]
)
test_rejects_kernel_h_for_one_spatial_axis = _rejects(
    "kernel_h and kernel_w need two spatial axes, the input has 1",
    [ramp(1, 4, 5)],
    kernel_size=None,
    kernel_h=1,
    kernel_w=1,
)
test_rejects_stride_of_0 = _rejects("strides must be positive, got (0, 0)", stride=0)
test_num_output_missing = _rejects("num_output must be positive; it is missing", num_output=None)
test_rejects_group_that_does_not_divide_num_output = _rejects("group=3 does not divide num_output=4", group=3)
test_rejects_group_that_does_not_divide_channels = _rejects(
    "group=4 does not divide 6 channels", [ramp(1, 6, 5, 5)], group=4
)
test_rejects_kernel_larger_than_map = _rejects(
    "a kernel with an extent of 7 cells and stride 1 does not fit spatial axis 0 of 5 cells with pad 0",
    kernel_size=7,
)
test_rejects_pad_that_makes_huge_map = _rejects(
    "pad (1000000, 1000000) turns a map of (5, 5) into (2000005, 2000005)", pad=1000000, stride=1000000
)
test_rejects_inputs_of_different_shapes = _rejects(
    "inputs must have one shape", [ramp(1, 4, 5, 5), ramp(1, 4, 5, 4)], tops=2
)
test_rejects_fewer_outputs_than_inputs = _rejects(
    "2 inputs need as many outputs, got 1", [ramp(1, 4, 5, 5), ramp(1, 4, 5, 5)]
)
test_rejects_axis_beyond_rank = _rejects("axis must lie in -4..3", axis=4)
test_rejects_unknown_field = _rejects("convolution_param has no field 'kernel'", kernel=3)
test_rejects_weights_of_other_shape = rejects(
    "Convolution",
    {"num_output": 1, "kernel_size": 2},
    inputs=[X],
    blobs=[ONES, ramp(1)],
    text="expected (1, 1, 2, 2)",
)
test_rejects_hole_and_dilation_together = _rejects("give hole or dilation, not both", hole=2, dilation=2)
test_read = reads(
    'layer { name: "c" type: "Convolution" bottom: "in0" top: "y" '
    "convolution_param { num_output: 8 kernel_size: 3 pad: 1 pad: 2 engine: CUDNN } }",
    num_output=8,
    kernel_size=(3,),
    pad=(1, 2),
    stride=(),
    engine="CUDNN",
    axis=1,
)
