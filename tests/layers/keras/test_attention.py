"""Tests of the attention layers."""

from dataclasses import replace

import numpy as np

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

CASES = recorded("attention")
globals().update(CASES)


def test_query_mask_is_noted() -> None:
    """A mask that is true everywhere changes nothing."""
    heads = CASES["test_heads"].case
    call = {"args": [{"input": 0}, {"input": 1}], "kwargs": {"query_mask": {"input": 2}}}
    inputs = [*heads.inputs, np.ones(heads.inputs[0].shape[:2], bool)]
    notes = ["Keras 3.15 ignores it"]
    replace(heads, params={**heads.params, "call": call}, inputs=inputs, notes=notes).run()


test_rejects_sliding_window = rejects(
    "MultiHeadAttention",
    {"num_heads": 2, "key_dim": 2, "sliding_window": 3},
    inputs=[ramp(1, 4, 3), ramp(1, 4, 3)],
    text="sliding_window=3 is not supported",
    format="keras",
)
test_rejects_query_without_value = rejects(
    "MultiHeadAttention",
    {"num_heads": 2, "key_dim": 2},
    inputs=[ramp(1, 4, 3)],
    text="takes query and value, got 1 input",
    format="keras",
)
test_rejects_indivisible_heads = rejects(
    "GroupedQueryAttention",
    {"head_dim": 2, "num_query_heads": 3, "num_key_value_heads": 2},
    inputs=[ramp(1, 4, 3), ramp(1, 4, 3)],
    text="num_key_value_heads=2 does not divide num_query_heads=3",
    format="keras",
)
test_attention_rejects_single_input = rejects(
    "Attention",
    {},
    inputs=[ramp(1, 4, 3)],
    text="takes [query, value] or [query, value, key], got 1 input",
    format="keras",
)
test_rejects_unknown_score_mode = rejects(
    "Attention",
    {"score_mode": "sum"},
    inputs=[ramp(1, 4, 3), ramp(1, 4, 3)],
    text="parameter 'score_mode' must be one of dot, concat, got 'sum'",
    format="keras",
)
