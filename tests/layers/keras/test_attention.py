"""Attention."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("attention"))

test_window_refused = rejects(
    "MultiHeadAttention",
    {"num_heads": 2, "key_dim": 2, "sliding_window": 3},
    inputs=[ramp(1, 4, 3), ramp(1, 4, 3)],
    text="sliding_window=3 is not supported",
    format="keras",
)
test_one_refused = rejects(
    "MultiHeadAttention",
    {"num_heads": 2, "key_dim": 2},
    inputs=[ramp(1, 4, 3)],
    text="takes query and value, got 1 inputs",
    format="keras",
)
test_groups_refused = rejects(
    "GroupedQueryAttention",
    {"head_dim": 2, "num_query_heads": 3, "num_key_value_heads": 2},
    inputs=[ramp(1, 4, 3), ramp(1, 4, 3)],
    text="2 groups do not divide 3 heads",
    format="keras",
)
test_alone_refused = rejects(
    "Attention",
    {},
    inputs=[ramp(1, 4, 3)],
    text="takes [query, value] or [query, value, key], got 1 inputs",
    format="keras",
)
test_mode_refused = rejects(
    "Attention",
    {"score_mode": "sum"},
    inputs=[ramp(1, 4, 3), ramp(1, 4, 3)],
    text="parameter 'score_mode' must be one of dot, concat, got 'sum'",
    format="keras",
)
