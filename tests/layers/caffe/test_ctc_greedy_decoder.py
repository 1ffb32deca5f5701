"""CTCGreedyDecoder: the most likely labels, without repeats and blanks."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from tests.layers.harness import case, noise, rejects

T, N, C = 9, 4, 3
X = noise(T, N, C)
GOING = np.ones((T, N), np.float32)
GOING[0, 1] = 0  # the first step's indicator is not read
GOING[4:, 2] = 0
GOING[1, 3] = 0  # one step, whatever follows


def reference(x: Array, going: Array, blank: int = -1, merge: bool = True) -> list[Array]:
    """Compute ctc_decoder_layer.cpp step by step: labels (N, T, 1, 1) and scores (N, 1, 1, 1)."""
    t, n, c = x.shape
    blank = c - 1 if blank < 0 else blank
    labels, scores = np.full((n, t, 1, 1), -1, np.float32), np.zeros((n, 1, 1, 1), np.float32)
    for k in range(n):
        before, size = -1, 0
        for i in range(t):
            best = int(x[i, k].argmax())
            scores[k] -= x[i, k, best]
            if best != blank and not (merge and best == before):
                labels[k, size], size = best, size + 1
            before = best
            if i + 1 == t or going[i + 1, k] == 0:
                break
    return [labels, scores]


def agrees(p: dict[str, Any], *, x: Array = X, going: Array = GOING, outputs: int = 2) -> Any:
    want = reference(x, going.reshape(x.shape[:2]), p.get("blank_index", -1), bool(p.get("ctc_merge_repeated", 1)))
    return case("CTCGreedyDecoder", p, inputs=[x, going], outputs=want[:outputs])


test_labels = agrees({}, outputs=1)
test_labels_and_scores = agrees({})
test_repeats_stay = agrees({"ctc_merge_repeated": 0})
test_first_label_is_blank = agrees({"blank_index": 0})
test_middle_label_is_blank = agrees({"blank_index": 1, "ctc_merge_repeated": 1})
test_four_dimensions = agrees({}, going=GOING[:, :, None, None])
test_one_step = agrees({}, x=X[:1], going=GOING[:1])
test_by_hand = case(
    "CTCGreedyDecoder",
    {},
    inputs=[np.eye(3, dtype=np.float32)[[0, 0, 2, 0, 1, 1]][:, None], np.ones((6, 1), np.float32)],
    outputs=[np.array([0, 0, 1, -1, -1, -1], np.float32).reshape(1, 6, 1, 1)],
)


def rejected(p: dict[str, Any], text: str, inputs: list[Array], tops: int = 1) -> Any:
    return rejects("CTCGreedyDecoder", p, inputs=inputs, text=text, tops=tops)


test_rejects_targets_as_third_input = rejected(
    {}, "takes 2 inputs (probabilities, indicators), got 3; accuracy is not computed", [X, GOING, GOING]
)
test_rejects_third_output = rejected({}, "has at most 2 outputs (sequences, scores), got 3", [X, GOING], tops=3)
test_rejects_probabilities_without_3_axes = rejected(
    {}, "probabilities must be of shape (T, N, C), got (9, 4)", [GOING, GOING]
)
test_rejects_indicators_with_axes_exchanged = rejected(
    {}, "indicators must be of shape (9, 4), got (4, 9)", [X, GOING.T.copy()]
)
test_rejects_blank_index_beyond_labels = rejected(
    {"blank_index": 3}, "blank_index=3 must be less than the 3 labels", [X, GOING]
)
