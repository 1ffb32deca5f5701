"""ReorgYolo."""

from tests.layers.caffe.test_reorg import DARKNET, X, column
from tests.layers.harness import case, ramp, rejects

test_forward = case("ReorgYolo", {"stride": 2}, inputs=[X], outputs=[column(DARKNET)])
test_default_is_identity = case("ReorgYolo", inputs=[X], outputs=[X])
test_rejects_channels_that_stride_squared_does_not_divide = rejects(
    "ReorgYolo", {"stride": 2}, inputs=[ramp(1, 6, 2, 2)], text="stride=2 squared does not divide 6 channels"
)
