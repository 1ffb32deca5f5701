"""LSTM, GRU, SimpleRNN."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("recurrent"))
