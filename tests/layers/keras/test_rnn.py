"""Tests of LSTM, GRU and SimpleRNN."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("recurrent"))

test_rejects_input_of_other_rank = rejects(
    "LSTM",
    {"units": 2},
    inputs=[ramp(1, 4)],
    text="takes a sequence of rank 3, got (1, 4)",
    format="keras",
)
test_rejects_incomplete_state = rejects(
    "LSTM",
    {"units": 2},
    inputs=[ramp(1, 4, 3), ramp(1, 2)],
    text="the initial state must be 2 arrays, got 1",
    format="keras",
)
