"""What the layers share that run through a sequence with a state."""

from __future__ import annotations

from typing import Any

from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer


class StateLayer(KerasLayer):
    """A layer that runs through a sequence with a state, which is zero before the first step of each call."""

    activation: Any = attribute("any", "tanh", doc="activation function of the new values")
    recurrent_activation: Any = attribute("any", "sigmoid", doc="activation function of the gates")
    return_sequences: bool = attribute("bool", False, doc="whether all steps are returned, or only the last")
    return_state: bool = attribute("bool", False, doc="whether the last state is returned too")
    go_backwards: bool = attribute("bool", False, doc="whether the sequence is reversed first")
    stateful: bool = attribute("bool", False, doc="whether Keras keeps the state from call to call")

    def note_state(self) -> None:
        """Add a note where Keras would keep the state between calls."""
        if self.stateful:
            self.note("stateful: each call starts with a zero state, whereas Keras keeps the state between calls")
