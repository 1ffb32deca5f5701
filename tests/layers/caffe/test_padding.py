"""Padding."""

import numpy as np

from tests.layers.harness import case, noise, reads, rejects

X = noise(2, 3, 4, 5)

test_each_side = case(
    "Padding",
    {"pad_t": 1, "pad_b": 2, "pad_l": 3},
    inputs=[X],
    outputs=[np.pad(X, [(0, 0), (0, 0), (1, 2), (3, 0)])],
)
test_value = case(
    "Padding",
    {"pad_r": 1, "pad_value": -2},
    inputs=[X],
    outputs=[np.pad(X, [(0, 0), (0, 0), (0, 0), (0, 1)], constant_values=-2)],
)
test_default_is_the_input = case("Padding", {}, inputs=[X], outputs=[X])
test_reads = reads("layer { type: 'Padding' bottom: 'in0' top: 'y' padding_param { pad_t: 2 } }", pad_t=2, pad_b=0)
test_rejects_rank_3 = rejects("Padding", {"pad_t": 1}, inputs=[X[0]], text="must be of shape (N, C, H, W)")
test_rejects_method = rejects(
    "Padding", {"pad_method": 1}, inputs=[X], text="pad_method is not supported, since its meanings are not known"
)
