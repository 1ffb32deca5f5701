"""FlowWarp: FlowNet 2's sampling along a flow."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from tests.layers.harness import case, noise, ramp, rejects

F = np.float32


def reference(image: Array, flow: Array, fill: float = 0.0) -> Array:
    """Compute flow_warp_layer.cpp one pixel at a time."""
    n, _, h, w = image.shape
    y = np.full(image.shape, fill, F)
    for i, r, c in np.ndindex(n, h, w):
        across, down = F(c) + flow[i, 0, r, c], F(r) + flow[i, 1, r, c]
        if not (across >= 0 and down >= 0 and across < w and down < h):
            continue
        left, top = int(across), int(down)
        right, low = min(left + 1, w - 1), min(top + 1, h - 1)
        a, b = across - F(left), down - F(top)
        y[i, :, r, c] = (
            (1 - a) * (1 - b) * image[i, :, top, left] + a * (1 - b) * image[i, :, top, right]
            + (1 - a) * b * image[i, :, low, left] + a * b * image[i, :, low, right]
        )  # fmt: skip
    return y


IMAGE, FLOW = noise(2, 3, 7, 9), noise(2, 2, 7, 9, seed=1, scale=3)
test_noise = case("FlowWarp", inputs=[IMAGE, FLOW], outputs=[reference(IMAGE, FLOW)])
test_not_a_number = case(
    "FlowWarp", {"fill_value": "NOT_A_NUMBER"}, inputs=[IMAGE, FLOW], outputs=[reference(IMAGE, FLOW, np.nan)]
)
test_no_flow = case("FlowWarp", inputs=[IMAGE, np.zeros_like(FLOW)], outputs=[IMAGE])
STEP = np.tile(np.array([1, -1], F).reshape(1, 2, 1, 1), (1, 1, 3, 4))
test_whole_steps = case(
    "FlowWarp",
    inputs=[ramp(1, 1, 3, 4), STEP],
    outputs=[[[[[0, 0, 0, 0], [1, 2, 3, 0], [5, 6, 7, 0]]]]],
)
BORDER = np.array([0.75, 0, 0, -0.5], F).reshape(1, 1, 1, 4).repeat(2, 1) * np.array([1, 0], F).reshape(1, 2, 1, 1)
test_between_the_last_cell_and_the_border_lies_the_last_cell = case(
    "FlowWarp", inputs=[ramp(1, 1, 1, 4), BORDER[..., ::-1].copy()], outputs=[[[[[0, 1, 2, 3]]]]]
)
test_a_flow_that_is_not_a_number_points_outside = case(
    "FlowWarp",
    inputs=[ramp(1, 2, 2, 2, start=1), np.full((1, 2, 2, 2), np.nan, F)],
    outputs=[np.zeros((1, 2, 2, 2), F)],
)
test_rejects_flow_without_2_channels = rejects(
    "FlowWarp", inputs=[IMAGE, IMAGE], text="the flow must be of shape (2, 2, 7, 9), got (2, 3, 7, 9)"
)
