"""Accuracy."""

import numpy as np

from tests.layers.harness import case, ramp, rejects

SCORES = np.float32([[1, 5, 3], [4, 2, 3], [0, 0, 9], [7, 6, 5]])

test_top_1 = case("Accuracy", inputs=[SCORES, [1, 2, 2, 1]], outputs=[np.float32(0.5)])
test_top_2 = case("Accuracy", {"top_k": 2}, inputs=[SCORES, [1, 2, 2, 1]], outputs=[np.float32(1)])
test_ignored_labels_do_not_count = case(
    "Accuracy", {"ignore_label": 255}, inputs=[SCORES, [1, 255, 2, 1]], outputs=[np.float32(2 / 3)]
)
test_all_ignored_is_0 = case(
    "Accuracy", {"ignore_label": 7}, inputs=[SCORES, [7, 7, 7, 7]], outputs=[np.float32(0)]
)
test_an_equal_score_of_another_label_counts_against = case(
    "Accuracy", inputs=[np.zeros((2, 3), np.float32), [0, 1]], outputs=[np.float32(0)]
)
test_by_label = case(
    "Accuracy",
    inputs=[SCORES, [1, 2, 2, 1]],
    outputs=[np.float32(0.5), np.float32([0, 0.5, 0.5])],
)
test_axis_0_with_pixels = case(
    "Accuracy", {"axis": 0}, inputs=[[[1, 5], [2, 3]], [[1, 0]]], outputs=[np.float32(1)]
)
test_rejects_one_label_less_than_scores = rejects(
    "Accuracy", inputs=[ramp(4, 3), ramp(3)], text="scores (4, 3) need 4 labels, got 3"
)
test_rejects_top_k_above_number_of_labels = rejects(
    "Accuracy",
    {"top_k": 4},
    inputs=[ramp(4, 3), ramp(4)],
    text="top_k must be at most 3, the number of labels, got 4",
)
