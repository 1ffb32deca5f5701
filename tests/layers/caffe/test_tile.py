"""Tile."""

import numpy as np

from tests.layers.harness import case, ramp, rejects

X = ramp(1, 2, 2)

test_axis_1 = case("Tile", {"tiles": 2}, inputs=[X], outputs=[np.concatenate([X, X], 1)])
test_negative_axis = case("Tile", {"axis": -1, "tiles": 3}, inputs=[X], outputs=[np.concatenate([X, X, X], 2)])
test_missing = rejects("Tile", inputs=[X], text="parameter 'tiles' is missing")
test_rejects_tiles_that_make_huge_output = rejects(
    "Tile",
    {"tiles": 2**30},
    inputs=[X],
    text="tiles=1073741824 makes 4294967296 elements of (1, 2, 2), at most 2147483647",
)
test_rejects_tiles_of_0 = rejects("Tile", {"tiles": 0}, inputs=[X], text="tiles must be at least 1, got 0")
