"""AbsVal."""

from tests.layers.harness import case, ramp, rejects

test_signs = case("AbsVal", inputs=[[[-2.5, 0, 3]]], outputs=[[[2.5, 0, 3]]])
test_rejects_work_in_place = rejects(
    "AbsVal", inputs=[ramp(2)], in_place=True, text="cannot work in place: give the top another name"
)
test_rejects_second_input = rejects("AbsVal", inputs=[ramp(2), ramp(2)], text="takes 1 input, got 2")
