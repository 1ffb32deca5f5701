"""YoloDetection."""

from functools import partial

import numpy as np

from tests.layers.harness import case, noise, rejects

boxes = partial(case, "YoloDetection", engines=())  # the layer runs in Python

FIELDS = {
    "net_input_h": 32, "net_input_w": 64, "nms_threshold": 0.5, "obj_threshold": 0.6, "keep_topk": 4,
    "class_num": 2, "tiny": True, "anchors": "8,8, 16,16, 32,32, 64,32, 8,4, 4,8",
}  # fmt: skip
NOTHING = np.full((1, 21, 1, 2), -9, np.float32)


def scored(boxes: dict[tuple[int, int], tuple[float, ...]]) -> np.ndarray:
    """Return a map in which each (column, anchor) has (tx, ty, tw, th, score) of class 1."""
    x = NOTHING.copy().reshape(1, 3, 7, 1, 2)
    for (column, anchor), (*place, score) in boxes.items():
        x[0, anchor, :, 0, column] = *place, np.log(score / (1 - score)), -40, 40
    return x.reshape(NOTHING.shape)


def rows(*found: tuple[float, ...]) -> np.ndarray:
    """Return rows (1, 1, 4, 6) from (x, y, width, height, score) of class 1."""
    table = np.zeros((1, 1, 4, 6), np.float32)
    for row, (*box, score) in zip(table[0, 0], found):
        row[:] = *box, 1, score
    return table


ONE = scored({(1, 0): (0, 0, np.log(2), 0, 0.75)})
test_box = boxes(FIELDS, inputs=[ONE, NOTHING], outputs=[rows((0.75, 0.5, 0.25, 0.25, 0.75))])
test_second_input_has_other_anchors = boxes(
    FIELDS, inputs=[NOTHING, ONE], outputs=[rows((0.75, 0.5, 2.0, 1.0, 0.75))]
)
PAIR = scored({(0, 1): (0, 0, 0, 0, 0.75), (0, 2): (0, 0, -0.5, -0.5, 0.9)})
BETTER = (0.25, 0.5, 0.5 * np.exp(-0.5), np.exp(-0.5), 0.9)
test_better_box_stays = boxes(FIELDS, inputs=[PAIR, NOTHING], outputs=[rows(BETTER)])
SHIFT = np.log(9)  # boxes 1 and 2, and 2 and 3 overlap by 0.43, 1 and 3 by 0.11
CHAIN = scored({(0, 0): (-SHIFT, 0, 0, 0, 0.7), (0, 1): (0, 0, 0, 0, 0.8), (0, 2): (SHIFT, 0, 0, 0, 0.9)})
test_box_dropped_later_has_dropped_one_before = boxes(
    {**FIELDS, "anchors": "32,32, 32,32, 32,32, 1,1, 1,1, 1,1", "nms_threshold": 0.4},
    inputs=[CHAIN, NOTHING],
    outputs=[rows((0.45, 0.5, 0.5, 1.0, 0.9))],
)
MANY = scored({(c, a): (0, 0, -3, -3, 0.7 + 0.05 * (c * 3 + a)) for c in (0, 1) for a in (0, 1, 2)})


def test_last_rows_are_cut_whatever_their_scores() -> None:
    made = boxes({**FIELDS, "nms_threshold": 1.0}, inputs=[MANY, NOTHING]).case
    (y,) = made.bind()(made.inputs)
    np.testing.assert_allclose(y[0, 0, :, 5], [0.7, 0.75, 0.8, 0.85], rtol=1e-5)


test_rejects_channels = rejects(
    "YoloDetection",
    FIELDS,
    inputs=[noise(1, 18, 1, 2), NOTHING],
    text="input 0 must have 3 * (5 + class_num) = 21 channels, got 18",
)
test_rejects_number_of_maps = rejects("YoloDetection", FIELDS, inputs=[NOTHING], text="takes 2 maps, got 1")
test_rejects_anchors = rejects(
    "YoloDetection",
    {**FIELDS, "anchors": "1,2"},
    inputs=[NOTHING, NOTHING],
    text="anchors must be 12 numbers separated by commas, got '1,2'",
)
test_rejects_spp = rejects(
    "YoloDetection",
    {**FIELDS, "spp_net": True},
    inputs=[NOTHING, NOTHING],
    text="spp_net: true is not supported",
)
