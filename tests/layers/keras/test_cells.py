"""Tests of RNN layers made of cells."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("cells"))

test_rejects_go_backwards_with_several_cells = rejects(
    "RNN",
    {"go_backwards": True, "cell": [{"class_name": "GRUCell", "config": {"units": 2}}] * 2},
    inputs=[ramp(1, 4, 3)],
    text="go_backwards with several cells is not supported",
    format="keras",
)
test_rejects_cell_that_is_not_recurrent = rejects(
    "RNN",
    {"cell": {"class_name": "Dense", "config": {"units": 2}}},
    inputs=[ramp(1, 4, 3)],
    text="its cell is a Dense, which is not recurrent",
    format="keras",
)
test_rejects_number_as_cell = rejects(
    "RNN",
    {"cell": 3},
    inputs=[ramp(1, 4, 3)],
    text="parameter 'cell' must be a cell or a list of cells, got 3",
    format="keras",
)
