"""Reverse."""

from tests.layers.harness import case, ramp, reads, rejects

test_vector = case("Reverse", {"axis": 0}, inputs=[[1, 2, 3]], outputs=[[3, 2, 1]])
test_channels = case("Reverse", {"axis": 1}, inputs=[ramp(2, 3, 2, 2)], outputs=[ramp(2, 3, 2, 2)[:, ::-1].copy()])
test_two_axes = case(
    "Reverse", {"axis": [2, 3]}, inputs=[ramp(1, 2, 3, 4)], outputs=[ramp(1, 2, 3, 4)[:, :, ::-1, ::-1].copy()]
)
test_from_the_end = case(
    "Reverse", {"axis": -1}, inputs=[ramp(2, 3, 4)], outputs=[ramp(2, 3, 4)[..., ::-1].copy()]
)
test_ascend_takes_the_first = case(
    "Reverse", dialect="ascend", inputs=[ramp(3, 2)], outputs=[ramp(3, 2)[::-1].copy()]
)
test_model_optimizer_takes_the_first = case(
    "Reverse", dialect="model-optimizer", inputs=[ramp(3, 2)], outputs=[ramp(3, 2)[::-1].copy()]
)

test_needs_an_axis = rejects(
    "Reverse", inputs=[ramp(3)], text="axis is missing: forks of Caffe take axis 0, refuse, or"
)
test_synopsys_needs_an_axis = rejects("Reverse", dialect="synopsys", inputs=[ramp(3)], text="axis is missing")
test_rejects_axis_beyond_rank = rejects(
    "Reverse", {"axis": 2}, inputs=[ramp(2, 3)], text="axis must lie in -2..1 for 2 axes, got 2"
)
test_rejects_negative_axis_beyond_rank = rejects(
    "Reverse", {"axis": -3}, inputs=[ramp(2, 3)], text="axis must lie in -2..1 for 2 axes, got -3"
)
test_rejects_repeated_axis = rejects(
    "Reverse", {"axis": [1, -1]}, inputs=[ramp(2, 3)], text="axis names an axis twice: [1, -1]"
)
test_from_text = reads(
    """layer { name: "turn" type: "Reverse" bottom: "in0" top: "turn" reverse_param { axis: 1 axis: -1 } }""",
    axis=(1, -1),
)

test_sophgo_reverses_axis_0 = case("Reverse", {}, dialect="sophgo", inputs=[[1, 2]], outputs=[[2, 1]])
