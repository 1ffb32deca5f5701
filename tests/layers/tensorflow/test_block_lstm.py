"""LSTM blocks."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_lstm = as_tensorflow("LSTMBlockCell", "BlockLSTM", "BlockLSTMV2")
V = np.zeros(2, np.float32)
test_weights = rejects(
    "LSTMBlockCell",
    {},
    *(np.zeros((1, 3)), np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((4, 8)), V, V, V, np.zeros(8)),
    text="w and b must be of shapes (5, 8) and (8,), got (4, 8) and (8,)",
    tops=7,
)
