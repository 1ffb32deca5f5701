"""CReLU."""

from tests.layers.harness import case, ramp, rejects

test_channels_double = case("CReLU", inputs=[[[1, -2]]], outputs=[[[1, 0, 0, 2]]])
test_axis_and_slope = case(
    "CReLU", {"concat_axis": 0, "negative_slope": 0.5}, inputs=[[[1, -2]]], outputs=[[[1, -1], [-0.5, 2]]]
)
test_rejects_work_in_place = rejects("CReLU", inputs=[ramp(1, 2)], in_place=True, text="cannot work in place")
test_rejects_concat_axis_beyond_rank = rejects(
    "CReLU", {"concat_axis": 2}, inputs=[ramp(1, 2)], text="concat_axis must lie in -2..1"
)
