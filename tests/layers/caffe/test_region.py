"""Region."""

import numpy as np

from tests.layers.caffe.test_yolo import X, sigma, soft
from tests.layers.harness import case, refuses, rejects


def in_place(x, boxes, classes, objectness="sigma", scores="sigma"):
    n, _, h, w = x.shape
    v = x.reshape(n, boxes, 5 + classes, h, w).astype(np.float64)
    y = v.copy()
    y[:, :, :2] = sigma(v[:, :, :2])
    if scores == "joint":
        y[:, :, 4:] = soft(v[:, :, 4:], 2)
    else:
        y[:, :, 4] = sigma(v[:, :, 4]) if objectness == "sigma" else v[:, :, 4]
        y[:, :, 5:] = sigma(v[:, :, 5:]) if scores == "sigma" else soft(v[:, :, 5:], 2)
    return y.reshape(x.shape)


ASCEND, DARKNET = {"boxes": 2, "classes": 3}, {"num": 2, "classes": 3, "softmax": 0}
SOFT = in_place(X, 2, 3, scores="soft")
test_ascend = case("Region", ASCEND, inputs=[X], outputs=[in_place(X, 2, 3)])
test_ascend_softmax = case("Region", {**ASCEND, "softmax": 1}, inputs=[X], outputs=[SOFT])
test_ascend_background = case(
    "Region", {**ASCEND, "background": 1}, inputs=[X], outputs=[in_place(X, 2, 3, "raw")]
)
test_ascend_both = case(
    "Region", {**ASCEND, "background": 1, "softmax": 1}, inputs=[X], outputs=[in_place(X, 2, 3, scores="joint")]
)
test_darknet = case("Region", DARKNET, inputs=[X], outputs=[in_place(X, 2, 3)])
test_darknet_softmax = case("Region", {**DARKNET, "softmax": 1}, inputs=[X], outputs=[SOFT])
test_darknet_background = case(
    "Region", {**DARKNET, "background": 1}, inputs=[X], outputs=[in_place(X, 2, 3, "raw")]
)
test_darknet_by_dialect = case(
    "Region", {"num": 2, "classes": 3}, dialect="darknet", inputs=[X], outputs=[in_place(X, 2, 3)]
)
test_intel = case("Region", {"num": 2, "classes": 3, "coords": 4}, dialect="openvino", inputs=[X], outputs=[SOFT])

test_rejects_1_coordinate_of_intel = rejects(
    "Region", {"num": 2, "coords": 1}, dialect="openvino", inputs=[X], text="coords must be at least 2, got 1"
)
test_refusals = refuses(
    "Region",
    {
        "ambiguous": (
            {"num": 2, "classes": 3},
            "'Region' can mean 2 things, give dialect=...: darknet: Apply Darknet's region activations",
        ),
        "softmax_tree": ({**ASCEND, "softmax_tree": "tree.txt"}, "softmax_tree is not supported, got 'tree.txt'"),
        "5_coords": (
            {**ASCEND, "coords": 5},
            "coords must be 4, got 5: with more, Darknet's CPU and GPU disagree",
        ),
        "5_coords_of_darknet": ({**DARKNET, "coords": 5}, "coords must be 4, got 5"),
        "too_few_channels_for_boxes": (
            {"boxes": 3, "classes": 3},
            "3 boxes of 4 coordinates, the objectness and 3 classes make 24 channels, got 16",
        ),
    },
    inputs=[X],
)
test_rejects_3_outputs = rejects(
    "Region", ASCEND, inputs=[X], tops=3, text="Region has 1 output, got 3; the layer with 3 outputs is Yolo"
)
