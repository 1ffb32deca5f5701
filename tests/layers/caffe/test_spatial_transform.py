"""SpatialTransform."""

from tests.layers.caffe.test_spatial_transformer import ALL, T, X, sampled
from tests.layers.harness import case, ramp, rejects

MAP = list(ALL.values())
test_by_input = case("SpatialTransform", inputs=[X, T], outputs=[sampled(X, T, 6, 8)])
test_by_field = case(
    "SpatialTransform", {"affine_transform": MAP, "output_h": 4}, inputs=[X], outputs=[sampled(X, [MAP] * 2, 4, 8)]
)
test_border = case(
    "SpatialTransform",
    {"affine_transform": [1, 0, 2 / 3, 0, 1, 0], "border_value": -2},
    inputs=[ramp(1, 1, 3, 4)],
    outputs=[[[[[4, 5, 6, 7], [8, 9, 10, 11], [-2, -2, -2, -2]]]]],
)
test_border_mixes = case(
    "SpatialTransform",
    {"affine_transform": [1, 0, 1 / 3, 0, 1, 0], "border_value": 10},
    inputs=[ramp(1, 1, 3, 4)],
    outputs=[[[[[2, 3, 4, 5], [6, 7, 8, 9], [9, 9.5, 10, 10.5]]]]],
)
test_rejects_affine_transform_without_6_values = rejects(
    "SpatialTransform",
    {"affine_transform": MAP[:4]},
    inputs=[X],
    text="affine_transform must be given 0 or 6 times, got 4",
)
test_theta_is_required = rejects(
    "SpatialTransform", inputs=[X], text="input 1 is missing: it contains the 6 values of theta"
)
