"""PassThrough."""

from tests.layers.caffe.test_reorg import ASCEND, REVERSE, X, column
from tests.layers.harness import case, ramp, rejects

test_forward = case("PassThrough", {"stride": 2}, inputs=[X], outputs=[column(ASCEND)])
test_reverse = case("PassThrough", {"reverse": True}, inputs=[X], outputs=[[[REVERSE]]])
test_rejects_stride_that_does_not_divide_map = rejects(
    "PassThrough", inputs=[ramp(1, 4, 2, 3)], text="stride=2 does not divide 2 x 3 pixels"
)
