"""BN, in PSPNet's and in SegNet's form."""

import numpy as np

from tests.layers.harness import case, noise, ramp, rejects

X = noise(2, 3, 2, 2)
A, B, MEAN, VARIANCE = (np.float32(v).reshape(1, 3, 1, 1) for v in ([1, 2, 3], [4, 5, 6], [1, -1, 0.5], [1, 4, 9]))

test_pspnet = case(
    "BN",
    {"frozen": True},
    inputs=[X],
    blobs=[A, B, MEAN, VARIANCE],
    outputs=[(X - MEAN) / np.sqrt(VARIANCE + np.float32(1e-5)) * A + B],
)
test_segnet_inference = case("BN", {"bn_mode": "INFERENCE"}, inputs=[X], blobs=[A, B], outputs=[X * A + B])
test_segnet_learn = case(
    "BN",
    dialect="segnet",
    params={"bn_param": {}},
    inputs=[X],
    blobs=[A, B],
    outputs=[
        (X - X.mean((0, 2, 3), keepdims=True)) / X.std((0, 2, 3), keepdims=True) * A + B,
        X.mean((0, 2, 3), keepdims=True),
        X.var((0, 2, 3), keepdims=True),
    ],
)
test_ambiguous = rejects(
    "BN", inputs=[X], blobs=[A, B], text="'BN' can mean 2 things, give dialect=...: pspnet or synopsys: "
)
test_rejects_field_of_neither_dialect = rejects(
    "BN", {"gamma": 1}, inputs=[X], text="bn_param has no field 'gamma'"
)
test_rejects_input_without_4_axes = rejects(
    "BN", {"bn_mode": 1}, inputs=[ramp(2, 3)], text="needs an input (N, C, H, W), got shape (2, 3)"
)

SLOPE, SHIFT, MEAN, VARIANCE = (np.abs(noise(1, 3, 1, 1, seed=s)) for s in range(4))
R = noise(2, 3)
NORMALIZED = (R - MEAN[..., 0, 0]) / np.sqrt(VARIANCE[..., 0, 0] + 1e-5) * SLOPE[..., 0, 0] + SHIFT[..., 0, 0]
test_sophgo_learn = case(
    "BN",
    {"bn_mode": "LEARN"},
    dialect="sophgo",
    blobs=[SLOPE, SHIFT, MEAN, VARIANCE],
    inputs=[R],
    outputs=[NORMALIZED],
)
test_sophgo_inference = case(
    "BN",
    {"bn_mode": "INFERENCE"},
    dialect="sophgo",
    blobs=[SLOPE, SHIFT],
    inputs=[R],
    outputs=[R * SLOPE[..., 0, 0] + SHIFT[..., 0, 0]],
)
