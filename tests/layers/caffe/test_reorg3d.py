"""Reorg3d."""

from tests.layers.caffe.test_reorg import ASCEND, REVERSE, X, column
from tests.layers.harness import case, ramp, rejects

test_forward = case("Reorg3d", {"stride": 2}, inputs=[X], outputs=[column(ASCEND)])
test_reverse = case("Reorg3d", {"stride": 2, "reverse": True}, inputs=[X], outputs=[[[REVERSE]]])
test_stride_is_required = rejects("Reorg3d", inputs=[X], text="parameter 'stride' is missing")
test_rejects_stride_that_does_not_divide_map = rejects(
    "Reorg3d", {"stride": 2}, inputs=[ramp(1, 4, 2, 3)], text="stride=2 does not divide 2 x 3 pixels"
)
