"""Normalize."""

import numpy as np

from tests.layers.harness import case, noise, ramp, reads, rejects

X = np.array([[[[3, 4]], [[0, 5]]]], np.float32)
N = noise(2, 3, 4, 5)
LENGTH = np.sqrt((N * N).sum(1, keepdims=True))
EACH = np.array([1, 2, 3], np.float32)

test_each_pixel = case(
    "Normalize",
    {"norm_param": {"across_spatial": False}},
    inputs=[X],
    outputs=[[[[[1, 0.62469505]], [[0, 0.78086881]]]]],
)
test_whole_image = case(
    "Normalize",
    {"norm_param": {"across_spatial": True}},
    blobs=[np.float32(2)],
    inputs=[X],
    outputs=[[[[[0.84852814, 1.13137085]], [[0, 1.41421356]]]]],
)
test_default_is_the_whole_image = case("Normalize", inputs=[X], outputs=[X / np.sqrt(np.float32(50))])
test_each_channel_its_scale = case(
    "Normalize",
    {"norm_param": {"across_spatial": False, "channel_shared": False}},
    blobs=[EACH],
    inputs=[N],
    outputs=[N / LENGTH * EACH.reshape(1, 3, 1, 1)],
)
test_legacy_blob = case(
    "Normalize",
    {"norm_param": {"across_spatial": False}},
    blobs=[np.full((1, 1, 1, 1), 20.0)],
    inputs=[N],
    outputs=[N / LENGTH * 20],
)
test_filler = case(
    "Normalize",
    {
        "norm_param": {
            "across_spatial": False,
            "channel_shared": False,
            "scale_filler": {"type": "constant", "value": 20},
        }
    },
    inputs=[N],
    outputs=[N / LENGTH * 20],
)
test_eps_is_inside = case("Normalize", {"norm_param": {"eps": 16}}, inputs=[[[3]]], outputs=[[[0.6]]])
test_rank_2 = case(
    "Normalize", {"norm_param": {"across_spatial": False}}, inputs=[[[3, 4]]], outputs=[[[0.6, 0.8]]]
)

test_rejects_input_without_4_axes = rejects(
    "Normalize", inputs=[[1, 2]], text="input 0 must be of shape (N, C, H, W), got (2,)"
)
test_rejects_scale_for_other_number_of_channels = rejects(
    "Normalize",
    {"norm_param": {"channel_shared": False}},
    blobs=[EACH],
    inputs=[X],
    text="blob 0 (scale) has shape (3,) in the weights file, expected (2,)",
)
test_rejects_second_blob = rejects(
    "Normalize", blobs=[np.float32(1), EACH], inputs=[X], text="the weights file has 2 blobs, expected 1"
)


def test_random_filler_is_reported() -> None:
    made = case("Normalize", {"norm_param": {"scale_filler": {"type": "uniform"}}}, inputs=[ramp(1, 2)]).case
    bound = made.bind()
    bound(made.inputs)
    assert bound.unfilled == ["scale"]


test_from_text = reads(
    """layer { name: "n" type: "Normalize" bottom: "in0" top: "n" norm_param {
         across_spatial: false scale_filler { type: "constant" value: 20 } channel_shared: false } }""",
    across_spatial=False,
    channel_shared=False,
)

test_amsoftmax = case(
    "Normalize",
    {"normalize_param": {"normalize_type": "L2"}},
    inputs=[N],
    outputs=[N / np.sqrt((N * N).sum(1, keepdims=True) + np.float32(1e-6))],
)
test_amsoftmax_by_absolute_values = case(
    "Normalize",
    {"normalize_param": {"normalize_type": "L1"}},
    dialect="amsoftmax",
    inputs=[N[:, :, 0, 0]],
    outputs=[
        N[:, :, :1, :1] / (np.abs(N[:, :, :1, :1]).sum(1, keepdims=True) + np.float32(1e-6)),
        np.abs(N[:, :, :1, :1]).sum(1, keepdims=True) + np.float32(1e-6),
    ],
)
test_rejects_amsoftmax_other_type = rejects(
    "Normalize",
    {"normalize_param": {"normalize_type": "Linf"}},
    inputs=[N],
    text='normalize_type must be "L1" or "L2", got "Linf"',
)
