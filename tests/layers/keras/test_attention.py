"""Tests of the attention layers."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("attention"))

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
