"""Tests of the recurrent layers."""

from __future__ import annotations

from pathlib import Path

import pytest
from openvino import opset3 as o3
from openvino import opset4 as o4
from openvino import opset5 as o5

from .harness import const, matches, noise, refuses

H, T, B, IN = 5, 4, 2, 3
X, S, C = noise(B, T, IN), [noise(B, d, H, seed=5) for d in (1, 2)], [noise(B, d, H, seed=6) for d in (1, 2)]


def weights(directions: int, gates: int, biases: int = 0) -> list[object]:
    """W, R and B."""
    biases = biases or gates
    return [
        const(noise(directions, gates * H, IN, seed=1)),
        const(noise(directions, gates * H, H, seed=2)),
        const(noise(directions, biases * H, seed=3)),
    ]


CASES = {}
for direction, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
    for lens in ([4, 4], [4, 2]):
        CASES[f"lstm {direction} {lens}"] = matches(
            lambda x, h, c, n=lens, d=d, way=direction: o5.lstm_sequence(
                x, h, c, const(n), *weights(d, 4), H, way
            ).outputs(),
            X,
            S[d - 1],
            C[d - 1],
        )
        CASES[f"rnn {direction} {lens}"] = matches(
            lambda x, h, n=lens, d=d, way=direction: o5.rnn_sequence(
                x, h, const(n), *weights(d, 1), H, way
            ).outputs(),
            X,
            S[d - 1],
        )
        for linear in (True, False):
            CASES[f"gru {direction} {lens} {linear}"] = matches(
                lambda x, h, n=lens, d=d, way=direction, lb=linear: o5.gru_sequence(
                    x, h, const(n), *weights(d, 3, 4 if lb else 3), H, way, linear_before_reset=lb
                ).outputs(),
                X,
                S[d - 1],
            )


def cell(gates: int) -> list[object]:
    """W, R and B of a cell."""
    return [const(noise(gates * H, IN)), const(noise(gates * H, H, seed=2)), const(noise(gates * H))]


STATE = noise(2, 5)
CASES["lstm cell"] = matches(
    lambda x, h, c: o4.lstm_cell(x, h, c, *cell(4), H).outputs(), noise(2, 3), STATE, noise(2, 5, seed=4)
)
CASES["gru cell"] = matches(lambda x, h: o3.gru_cell(x, h, *cell(3), H).outputs(), noise(2, 3), STATE)
CASES["rnn cell"] = matches(
    lambda x, h: o3.rnn_cell(x, h, *cell(1), H, ["tanh"], [], []).outputs(), noise(2, 3), STATE
)
test_rejects_activations_alpha = refuses(
    lambda x, h: o3.rnn_cell(x, h, *cell(1), H, ["hardsigmoid"], [0.3], [0.4]).outputs(),
    noise(2, 3),
    STATE,
    text="activations_alpha and activations_beta are not supported",
)


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
