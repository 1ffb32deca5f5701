"""Recurrent layers: sequences and single cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import Operation

_NAMES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "hardsigmoid": "HardSigmoid"}


class Recurrent(Operation):
    """Attributes of all recurrent layers."""

    hidden_size: int = attribute("int64")
    direction: str = attribute(Enum("forward", "reverse", "bidirectional"), "forward")
    activations: str = attribute("string", "")
    activations_alpha: tuple[float, ...] = attribute("float", (), repeated=True)
    activations_beta: tuple[float, ...] = attribute("float", (), repeated=True)
    clip: float = attribute("float", 0.0, doc="sums are cut to -clip..clip; 0: not")

    def options(self, default: str) -> dict[str, Any]:
        """What the operators of ops take."""
        need(
            not self.activations_alpha and not self.activations_beta,
            "activations_alpha and activations_beta are not supported",
        )
        names = [n.strip().lower() for n in (self.activations or default).split(",")]
        for name in names:
            need(name in _NAMES, f"the activation '{name}' is not supported; {', '.join(_NAMES)} are")
        both = 2 if self.direction == "bidirectional" else 1
        return {
            "hidden_size": self.hidden_size,
            "direction": self.direction,
            "activations": [_NAMES[n] for n in names] * both,
            "clip": self.clip or None,
        }


def gates(w: Any, order: list[int], hidden: int) -> Any:
    """Weights (D, G * H, ...) with their gates in another order."""
    parts = [w[:, g * hidden : (g + 1) * hidden] for g in order]
    return np.concatenate(parts, axis=1)


def lengths(given: Any, x: Any) -> Any:
    """The lengths of the sequences as ONNX takes them; None where all are the whole."""
    if isinstance(given, np.ndarray) and (given == x.shape[1]).all():
        return None
    return given.astype(np.int32)


def _steps(x: Any) -> Any:
    """(B, T, ...) as (T, B, ...) or back."""
    return x.swapaxes(0, 1)


_LSTM = [1, 3, 0, 2]
"""OpenVINO's gates f, i, c, o as ONNX has them: i, o, f, c."""


def _lstm(self: Recurrent, x: Any, h: Any, c: Any, lens: Any, w: Any, r: Any, b: Any) -> Any:
    n = self.hidden_size
    w, r, b = (gates(v, _LSTM, n) for v in (w, r, b))
    b = np.concatenate([b, np.zeros(b.shape, b.dtype)], axis=1)
    return ops.lstm(x, w, r, b, lens, h, c, **self.options("sigmoid,tanh,tanh"))


def _gru(self: Any, x: Any, h: Any, lens: Any, w: Any, r: Any, b: Any) -> Any:
    n, linear = self.hidden_size, self.linear_before_reset
    wanted = 4 * n if linear else 3 * n
    need(b.shape[1] == wanted, f"the biases must be of {wanted} numbers, got {b.shape[1]}")
    inner = np.zeros((b.shape[0], 3 * n), b.dtype)
    if linear:
        inner = np.concatenate([inner[:, : 2 * n], b[:, 3 * n :]], axis=1)
    b = np.concatenate([b[:, : 3 * n], inner], axis=1)
    return ops.gru(x, w, r, b, lens, h, linear_before_reset=linear, **self.options("sigmoid,tanh"))


def _rnn(self: Recurrent, x: Any, h: Any, lens: Any, w: Any, r: Any, b: Any) -> Any:
    b = np.concatenate([b, np.zeros(b.shape, b.dtype)], axis=1)
    return ops.rnn(x, w, r, b, lens, h, **self.options("tanh"))


def _whole(y: Any) -> Any:
    """Outputs (T, D, B, H) as (B, D, T, H)."""
    return y.transpose(2, 1, 0, 3)


@layer("LSTMSequence")
class LSTMSequence(Recurrent):
    """Long short-term memory over sequences (B, T, I): all steps (B, D, T, H), the last, the last cell state.

    Source: OpenVINO, LSTMSequence-1, LSTMSequence-5.
    """

    def forward(self, x: Any, h: Any, c: Any, lens: Any, w: Any, r: Any, b: Any) -> Any:
        y, last, cell = _lstm(self, _steps(x), _steps(h), _steps(c), lengths(lens, x), w, r, b)
        return (_whole(y), _steps(last), _steps(cell))[: self.outputs]


@layer("GRUSequence")
class GRUSequence(Recurrent):
    """Gated recurrent units over sequences (B, T, I): all steps (B, D, T, H), and the last.

    Source: OpenVINO, GRUSequence-5.
    """

    linear_before_reset: bool = attribute("bool", False)

    def forward(self, x: Any, h: Any, lens: Any, w: Any, r: Any, b: Any) -> Any:
        y, last = _gru(self, _steps(x), _steps(h), lengths(lens, x), w, r, b)
        return (_whole(y), _steps(last))[: self.outputs]


@layer("RNNSequence")
class RNNSequence(Recurrent):
    """A plain recurrent layer over sequences (B, T, I): all steps (B, D, T, H), and the last.

    Source: OpenVINO, RNNSequence-5.
    """

    def forward(self, x: Any, h: Any, lens: Any, w: Any, r: Any, b: Any) -> Any:
        y, last = _rnn(self, _steps(x), _steps(h), lengths(lens, x), w, r, b)
        return (_whole(y), _steps(last))[: self.outputs]


@layer("LSTMCell")
class LSTMCell(Recurrent):
    """One step of long short-term memory: the state (B, H) and the cell state.

    Source: OpenVINO, LSTMCell-4.
    """

    def forward(self, x: Any, h: Any, c: Any, w: Any, r: Any, b: Any) -> Any:
        _, last, cell = _lstm(self, x[None], h[None], c[None], None, w[None], r[None], b[None])
        return (last[0], cell[0])[: self.outputs]


@layer("GRUCell")
class GRUCell(Recurrent):
    """One step of a gated recurrent unit: the state (B, H).

    Source: OpenVINO, GRUCell-3.
    """

    linear_before_reset: bool = attribute("bool", False)

    def forward(self, x: Any, h: Any, w: Any, r: Any, b: Any) -> Any:
        _, last = _gru(self, x[None], h[None], None, w[None], r[None], b[None])
        return last[0]


@layer("RNNCell")
class RNNCell(Recurrent):
    """One step of a plain recurrent layer: the state (B, H).

    Source: OpenVINO, RNNCell-0.
    """

    def forward(self, x: Any, h: Any, w: Any, r: Any, b: Any) -> Any:
        _, last = _rnn(self, x[None], h[None], None, w[None], r[None], b[None])
        return last[0]
