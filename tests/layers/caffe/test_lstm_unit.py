"""LSTMUnit."""

import numpy as np

from tests.layers.harness import case, noise, rejects

C, G = noise(1, 2, 3), noise(1, 2, 12, seed=1)
CONT = np.array([[0, 1]], np.float32)
ENTER, FORGET, LEAVE = (1 / (1 + np.exp(-G[:, :, k * 3 : k * 3 + 3])) for k in range(3))
NEW = CONT[:, :, None] * FORGET * C + ENTER * np.tanh(G[:, :, 9:])

test_one_step = case("LSTMUnit", inputs=[C, G, CONT], outputs=[NEW, LEAVE * np.tanh(NEW)])
test_rejects_gates = rejects(
    "LSTMUnit", inputs=[C, G[:, :, :9], CONT], tops=2, text="the gates (input 1) must be of shape (1, 2, 12)"
)
test_rejects_one_output = rejects("LSTMUnit", inputs=[C, G, CONT], text="has 2 outputs (c, h), got 1")
