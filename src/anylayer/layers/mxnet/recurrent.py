"""The fused recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import FLAG, INT, operators, training

_GATES = {"rnn_relu": [0], "rnn_tanh": [0], "lstm": [0, 3, 1, 2], "gru": [1, 0, 2]}
"""The gates in the order of ONNX, by their number in the order of MXNet: i, f, c, o and r, z, h."""


def _reorder(array: Array, gates: Sequence[int]) -> Array:
    """Return an array of all gates with its gates in another order."""
    parts = np.split(array, len(gates))
    return parts[0] if len(gates) == 1 else np.concatenate([parts[i] for i in gates])


def _run(
    x: Array, parameters: Array, state: Array, cell: Array | None = None, *, state_size: int, num_layers: int,
    bidirectional: bool, mode: str, outputs: int,
) -> list[Array]:  # fmt: skip
    need((cell is not None) == (mode == "lstm"), f"mode {mode} does not have {3 if cell is None else 4} inputs")
    need(len(x.shape) == 3 and num_layers >= 1 and state_size >= 1, f"does not take an input of {tuple(x.shape)}")
    gates, size, directions = _GATES[mode], state_size, 1 + bidirectional
    widths = [x.shape[2] if i == 0 else directions * size for i in range(num_layers)]
    rows = len(gates) * size
    count = sum(directions * rows * (width + size + 2) for width in widths)
    need(
        tuple(parameters.shape) == (count,),
        f"parameters must be of shape ({count},), got {tuple(parameters.shape)}",
    )
    position = 0

    def take(*shape: int) -> Array:
        nonlocal position
        start, position = position, position + int(np.prod(shape))
        return _reorder(parameters[start:position].reshape(shape), gates)

    weights = [[(take(rows, w), take(rows, size)) for _ in range(directions)] for w in widths]
    biases = [[np.concatenate([take(rows), take(rows)]) for _ in range(directions)] for _ in widths]
    direction = "bidirectional" if bidirectional else "forward"
    final = []
    for i in range(num_layers):
        w, r = (np.stack([pair[k] for pair in weights[i]]) for k in (0, 1))
        part, b = slice(i * directions, (i + 1) * directions), np.stack(biases[i])
        h = _states(state, part)
        if cell is not None:
            c = _states(cell, part)
            y, *last = ops.lstm(x, w, r, b, None, h, c, hidden_size=size, direction=direction)
        elif mode == "gru":
            y, *last = ops.gru(
                x, w, r, b, None, h, hidden_size=size, direction=direction, linear_before_reset=True
            )
        else:
            names = ["Relu" if mode == "rnn_relu" else "Tanh"] * directions
            y, *last = ops.rnn(x, w, r, b, None, h, hidden_size=size, direction=direction, activations=names)
        final.append(last)
        x = y.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[1], directions * size)
    return [x, *(np.concatenate(states) for states in zip(*final))][:outputs]


def _states(state: Array, part: slice) -> Array | None:
    """Return the states of a layer, or None for zeros whose batch size MXNet infers."""
    return None if 0 in state.shape else state[part]


operators(
    {
        "RNN": row("Run layers of a recurrent network, an LSTM or a GRU.", _run, "rnn.cc",
            "Inputs: x (T, N, values), the parameters of all layers, the states (layers * directions, N, "
            "state_size), and those of the cells of an LSTM. The last states are further outputs.",
            {"neutral": dict.fromkeys(("projection_size", "lstm_state_clip_min", "lstm_state_clip_max"))
             | {"use_sequence_length": False, "lstm_state_clip_nan": False}, **training("p state_outputs")},
            state_size=INT, num_layers=INT, bidirectional=FLAG, mode=attribute(Enum(*_GATES))),
    },
)  # fmt: skip
