"""Tests of RNN layers made of cells."""

from tests.layers.harness import ramp, refuses
from tests.layers.keras.recorded import recorded

globals().update(recorded("cells"))

test_refusals = refuses(
    "RNN",
    {
        "go_backwards_with_several_cells": (
            {"go_backwards": True, "cell": [{"class_name": "GRUCell", "config": {"units": 2}}] * 2},
            "go_backwards with several cells is not supported",
        ),
        "cell_that_is_not_recurrent": (
            {"cell": {"class_name": "Dense", "config": {"units": 2}}},
            "its cell is a Dense, which is not recurrent",
        ),
        "number_as_cell": ({"cell": 3}, "parameter 'cell' must be a cell or a list of cells, got 3"),
    },
    format="keras",
    inputs=[ramp(1, 4, 3)],
)
