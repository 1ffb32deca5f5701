"""DataAugmentation: what FlowNet's layer does in phase TEST."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from tests.layers.harness import case, noise, ramp, reads, rejects

F = np.float32
X = noise(2, 3, 9, 12)
ITERATIONS = np.full((1, 1, 1, 1), 1200, F)
EACH = noise(1, 3, 1, 1, seed=2)


def cut(x: Array, tall: int, wide: int) -> Array:
    """Compute SpatialAugmentation of data_augmentation_layer.cu one pixel at a time, without coefficients."""
    _, _, h, w = x.shape
    y = np.zeros((*x.shape[:2], tall, wide), F)
    for i, j in np.ndindex(tall, wide):
        across, down = F(j) + (F(-0.5) * F(wide) + F(0.5) * F(w)), F(i) + (F(-0.5) * F(tall) + F(0.5) * F(h))
        across, down = max(F(0), min(across, F(w) - F(1.05))), max(F(0), min(down, F(h) - F(1.05)))
        left, top = int(across), int(down)
        a, b = across - F(left), down - F(top)
        y[:, :, i, j] = (
            (1 - a) * (1 - b) * x[:, :, top, left] + a * b * x[:, :, top + 1, left + 1]
            + (1 - a) * b * x[:, :, top + 1, left] + a * (1 - b) * x[:, :, top, left + 1]
        )  # fmt: skip
    return y


STORED: dict[str, Any] = {"recompute_mean": 1000, "mean_per_pixel": 0}
test_mean_of_each_channel = case(
    "DataAugmentation",
    {**STORED, "translate": {"mean": 0.0}, "noise": {"rand_type": "uniform_bernoulli"}},
    inputs=[X],
    outputs=[X - EACH],
    blobs=[ITERATIONS, noise(1, 3, 32, 44), EACH],
)
PIXELS = noise(1, 3, 9, 12, seed=3)
test_mean_of_each_pixel = case(
    "DataAugmentation",
    {"recompute_mean": 1000},
    inputs=[X],
    outputs=[X - PIXELS],
    blobs=[ITERATIONS, PIXELS, EACH],
)
test_mean_of_other_pixels = case(
    "DataAugmentation",
    {"recompute_mean": 1000},
    inputs=[X],
    outputs=[X - PIXELS[:, :, :4].mean(axis=(2, 3), keepdims=True)],
    blobs=[ITERATIONS, PIXELS[:, :, :4].copy(), EACH],
)
test_cut = case(
    "DataAugmentation",
    {**STORED, "crop_height": 6, "crop_width": 8},
    inputs=[X],
    outputs=[cut(X, 6, 8) - EACH],
    blobs=[ITERATIONS, noise(1, 3, 6, 8), EACH],
)
test_cut_of_the_same_size_mixes_the_last_cells = case(
    "DataAugmentation",
    {"crop_height": 1, "crop_width": 4, "mean_per_pixel": 1},
    inputs=[ramp(1, 1, 1, 4) * 20],
    outputs=[[[[[0, 20, 40, 59]]]]],
    blobs=[ITERATIONS],
)
test_given_means = case(
    "DataAugmentation",
    {"mean": [1.0, 2.0, 3.0], "mean_per_pixel": 0},
    inputs=[X],
    outputs=[X - np.array([1, 2, 3], F).reshape(1, 3, 1, 1)],
)
test_nothing_to_do = case("DataAugmentation", {"max_multiplier": 1.0}, inputs=[X], outputs=[X])

test_opencv_subtracts_the_mean_of_the_picture = case(
    "DataAugmentation",
    STORED,
    inputs=[X[:1]],
    outputs=[X[:1] - X[:1].mean(axis=(2, 3), keepdims=True)],
    blobs=[ITERATIONS, noise(1, 3, 9, 12), EACH],
    dialect="opencv",
)


def rejected(params: dict[str, Any], text: str, **given: Any) -> Any:
    return rejects("DataAugmentation", params, inputs=[X], text=text, **given)


test_rejects_second_output_in_phase_test = rejected({}, "has 1 output in phase TEST, got 2", tops=2)
test_rejects_augmentation_during_test = rejected(
    {"augment_during_test": 1, "crop_height": 3, "crop_width": 3}, "augment_during_test: true is not supported"
)
test_rejects_crop_larger_than_input = rejected(
    {"crop_height": 10, "crop_width": 3}, "a crop of 10 x 3 does not fit an input of 9 x 12", blobs=[ITERATIONS]
)
test_rejects_mean_that_is_still_being_recomputed = rejected(
    {"recompute_mean": 2000, "mean_per_pixel": 0},
    "recompute_mean=2000 is not reached: the weights file counts 1200 iterations, so the mean would still change "
    "with every image",
    blobs=[ITERATIONS, PIXELS, EACH],
)
test_rejects_mean_of_pixels_of_other_shape = rejected(
    {"recompute_mean": 2},
    "blob 1 (mean of each pixel) has shape (1, 2, 9, 12), (1, 3, h, w) is needed",
    blobs=[ITERATIONS, noise(1, 2, 9, 12), EACH],
)
test_rejects_three_means_for_two_channels = rejects(
    "DataAugmentation",
    {"mean": [1.0, 2.0, 3.0], "mean_per_pixel": 0},
    inputs=[noise(1, 2, 3, 3)],
    text="mean has 3 values, the input has 2 channels",
)
test_rejects_pictures_that_opencv_does_not_compute = rejected(
    {"recompute_mean": 2, "mean_per_pixel": False},
    "OpenCV's layer computes one picture of 3 channels, got shape (2, 3, 9, 12)",
    dialect="opencv",
)
test_rejects_mean_of_each_pixel_in_opencv = rejected(
    {"recompute_mean": 2, "mean_per_pixel": True},
    "OpenCV's DataAugmentation needs mean_per_pixel: false; leave the dialect out for FlowNet's rule",
    dialect="opencv",
)
test_rejects_mean_that_opencv_does_not_compute = rejected(
    {"recompute_mean": 0}, "OpenCV's DataAugmentation needs recompute_mean above 0", dialect="opencv"
)
test_read = reads(
    'layer { name: "a" type: "DataAugmentation" bottom: "in0" top: "y" augmentation_param { max_multiplier: 1 '
    'recompute_mean: 1000 mean_per_pixel: false translate { rand_type: "uniform" spread: 0.4 prob: 1.0 } '
    "chromatic_eigvec: 0.51 chromatic_eigvec: 0.56 } }",
    recompute_mean=1000,
    mean_per_pixel=False,
)
