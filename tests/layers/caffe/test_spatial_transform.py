"""SpatialTransform."""

from tests.layers.caffe.test_spatial_transformer import ALL, T, X, sampled
from tests.layers.harness import case, rejects

MAP = list(ALL.values())
test_by_input = case("SpatialTransform", inputs=[X, T], outputs=[sampled(X, T, 6, 8)])
test_by_field = case(
    "SpatialTransform", {"affine_transform": MAP, "output_h": 4}, inputs=[X], outputs=[sampled(X, [MAP] * 2, 4, 8)]
)
test_border = rejects("SpatialTransform", {"border_value": 1}, inputs=[X, T], text="border_value must be 0, got 1")
test_count = rejects(
    "SpatialTransform",
    {"affine_transform": MAP[:4]},
    inputs=[X],
    text="affine_transform must be given 0 or 6 times, got 4",
)
test_theta_is_required = rejects(
    "SpatialTransform", inputs=[X], text="input 1 is missing: it holds the 6 values of theta"
)
