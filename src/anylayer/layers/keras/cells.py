"""RNN layers made of cells."""

from __future__ import annotations

from typing import Any

from anylayer.errors import LayerError
from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer
from anylayer.layers.keras.recurrent import GRU, LSTM, SequenceLayer, SimpleRNN
from anylayer.network import Array


@layer("LSTMCell")
class LSTMCell(LSTM):
    """Compute one step of an LSTM, as part of an RNN.

    Inputs are (N, C), the states (N, units). Weights: those of LSTM.
    Source: keras/src/layers/rnn/lstm.py.
    """


@layer("GRUCell")
class GRUCell(GRU):
    """Compute one step of a GRU, as part of an RNN.

    Inputs are (N, C), the state (N, units). Weights: those of GRU.
    Source: keras/src/layers/rnn/gru.py.
    """


@layer("SimpleRNNCell")
class SimpleRNNCell(SimpleRNN):
    """Compute one step of a SimpleRNN, as part of an RNN.

    Inputs are (N, C), the state (N, units). Weights: those of SimpleRNN.
    Source: keras/src/layers/rnn/simple_rnn.py.
    """


@layer("RNN")
class RNN(KerasLayer):
    """Run a sequence through a recurrent cell, or through several cells in a chain.

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last states.
    Weights: those of the cells in order.
    Source: keras/src/layers/rnn/rnn.py.
    """

    harmless = frozenset({"unroll"})
    masks = "takes"
    called_with = frozenset({"mask"})

    cell: Any = attribute("any", doc="the cell, a list of cells, or StackedRNNCells")
    return_sequences: bool = attribute("bool", False, doc="whether all steps are returned, or only the last")
    return_state: bool = attribute("bool", False, doc="whether the last states are returned too")
    go_backwards: bool = attribute("bool", False, doc="whether the sequence is reversed first")
    stateful: bool = attribute("bool", False, doc="whether Keras keeps the state from call to call")
    time_major: bool = attribute("bool", False, doc="whether the sequence is (T, N, C)")
    zero_output_for_mask: bool = attribute("bool", False, doc="whether the output of masked steps is zero")

    def forward(self, x: Array, mask: Array | None = None) -> list[Array]:
        cells = self._cells()
        first, states = 0, []
        for i, spec in enumerate(cells):
            cell = self._cell_layer(spec, first, i == len(cells) - 1)
            cell.go_backwards = self.go_backwards and i == 0
            x, *last = cell.run(x, [], mask)
            self.adopt(cell, first)
            first += 2 + cell.use_bias
            states += last
        return [x, *(states if self.return_state else ())][: self.outputs]

    def _cells(self) -> list[Any]:
        spec = self.cell
        if isinstance(spec, dict) and isinstance(spec.get("config"), dict) and "cells" in spec["config"]:
            spec = spec["config"]["cells"]
        cells = spec if isinstance(spec, list) else [spec]
        need(
            cells and all(isinstance(c, dict) for c in cells),
            f"parameter 'cell' must be a cell or a list of cells, got {self.cell!r}",
        )
        need(not (self.go_backwards and len(cells) > 1), "go_backwards with several cells is not supported")
        return cells

    def _cell_layer(self, spec: Any, first: int, last: bool) -> SequenceLayer:
        use_bias = isinstance(spec.get("config"), dict) and spec["config"].get("use_bias", True)
        cell = self.inner(spec, first, 2 + bool(use_bias))
        if not isinstance(cell, SequenceLayer):
            raise LayerError(f"its cell is a {cell.type}, which is not recurrent")
        cell.return_sequences = self.return_sequences or not last
        cell.return_state = True
        cell.time_major = self.time_major
        cell.zero_output_for_mask = self.zero_output_for_mask
        return cell
