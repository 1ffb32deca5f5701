"""Transpose."""

from tests.layers.harness import case, ramp, rejects

X = ramp(2, 3, 4, 5)
test_all = case("Transpose", {"dim": [3, 0, 1, 2]}, inputs=[X], outputs=[X.transpose(3, 0, 1, 2).copy()])
test_rank_2 = case("Transpose", {"dim": [1, 0]}, inputs=[X[0, 0]], outputs=[X[0, 0].T.copy()])
test_missing = rejects(
    "Transpose", inputs=[X], text="dim must name each axis of shape (2, 3, 4, 5) once, 0..3, got []"
)
test_rejects_repeated_axis = rejects(
    "Transpose", {"dim": [0, 1, 1, 2]}, inputs=[X], text="once, 0..3, got [0, 1, 1, 2]"
)
test_rejects_work_in_place = rejects(
    "Transpose", {"dim": [0, 1, 2, 3]}, inputs=[X], in_place=True, text="cannot work in place"
)
