"""Tests of the LSTM blocks."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_lstm_matches_tensorflow = as_tensorflow("LSTMBlockCell", "BlockLSTM", "BlockLSTMV2")
V = np.zeros(2, np.float32)
test_rejects_weights_of_other_shape = rejects(
    "LSTMBlockCell",
    {},
    *(np.zeros((1, 3)), np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((4, 8)), V, V, V, np.zeros(8)),
    text="w and b must have shapes (5, 8) and (8,), got (4, 8) and (8,)",
    tops=7,
)
