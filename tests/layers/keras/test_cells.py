"""RNN, made of cells."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("cells"))

test_mixed_refused = rejects(
    "RNN",
    {"cell": [{"class_name": "GRUCell", "config": {}}, {"class_name": "LSTMCell", "config": {}}]},
    inputs=[ramp(1, 4, 3)],
    text="mixes GRUCell and LSTMCell: the file does not tell whose weights are whose",
    format="keras",
)
test_backwards_refused = rejects(
    "RNN",
    {"go_backwards": True, "cell": [{"class_name": "GRUCell", "config": {"units": 2}}] * 2},
    inputs=[ramp(1, 4, 3)],
    text="go_backwards with several cells is not supported",
    format="keras",
)
test_not_recurrent_refused = rejects(
    "RNN",
    {"cell": {"class_name": "Dense", "config": {"units": 2}}},
    inputs=[ramp(1, 4, 3)],
    text="its cell is a Dense, which is not recurrent",
    format="keras",
)
test_none_refused = rejects(
    "RNN",
    {"cell": 3},
    inputs=[ramp(1, 4, 3)],
    text="parameter 'cell' must be cells, got 3",
    format="keras",
)
