"""ContinuationIndicator."""

import numpy as np

from tests.layers.harness import case, ramp, rejects

FIRST = np.array([[0, 0], [1, 1], [1, 1]], np.float32)

test_first_step_begins = case(
    "ContinuationIndicator", {"time_step": 3, "batch_size": 2}, inputs=[ramp(5, 4)], outputs=[FIRST]
)
test_without_input = case("ContinuationIndicator", {"time_step": 3}, inputs=[], outputs=[FIRST[:, :1]])
test_flag = case("ContinuationIndicator", {"time_step": 1, "flag": True}, inputs=[], outputs=[np.ones((1, 1))])
test_rejects_no_steps = rejects(
    "ContinuationIndicator", {}, inputs=[], text="time_step and batch_size must be at least 1, got 0 and 1"
)
test_batch_has_no_default_in_intels_caffe = rejects(
    "ContinuationIndicator", {"time_step": 2}, dialect="intel", inputs=[], text="must be at least 1, got 2 and 0"
)
