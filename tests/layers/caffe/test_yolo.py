"""Yolo."""

import numpy as np

from tests.layers.harness import case, noise, reads, rejects

X = noise(2, 2 * 8, 3, 4)
SMALL = {"boxes": 2, "classes": 3}


def sigma(v):
    return 1 / (1 + np.exp(-v.astype(np.float64)))


def soft(v, axis):
    e = np.exp(v.astype(np.float64))
    return e / e.sum(axis, keepdims=True)


def outputs(x, boxes, classes, objectness="sigma", scores="sigma"):
    """Compute the outputs element by element, from the channel order box * (5 + classes) + element."""
    n, _, h, w = x.shape
    coords = np.zeros((n, 4 * boxes, h * w))
    confidence = np.zeros((n, boxes * h * w))
    probability = np.zeros((n, classes, boxes * h * w))
    for b in range(boxes):
        v = x[:, b * (5 + classes) : (b + 1) * (5 + classes)].reshape(n, 5 + classes, -1)
        at = slice(b * h * w, (b + 1) * h * w)
        coords[:, b], coords[:, boxes + b] = sigma(v[:, 0]), sigma(v[:, 1])
        coords[:, 2 * boxes + b], coords[:, 3 * boxes + b] = v[:, 3], v[:, 2]
        if scores == "joint":
            joint = soft(v[:, 4:], 1)
            confidence[:, at], probability[:, :, at] = joint[:, 0], joint[:, 1:]
            continue
        confidence[:, at] = sigma(v[:, 4]) if objectness == "sigma" else v[:, 4]
        probability[:, :, at] = sigma(v[:, 5:]) if scores == "sigma" else soft(v[:, 5:], 1)
    return [coords, confidence, probability]


def padded(arrays):
    """Return an array padded to the length of Ascend's buffers."""

    def length(n):
        return (2 * n + 32 + 31) // 32 * 32 // 2

    return [np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, length(a.shape[-1]) - a.shape[-1])]) for a in arrays]


def v2(**fields):
    return {**SMALL, "yolo_version": "V2", **fields}


test_v3 = case("Yolo", SMALL, inputs=[X], outputs=outputs(X, 2, 3))
test_v3_ignores_softmax = case(
    "Yolo",
    {**SMALL, "softmax": True, "background": True},
    inputs=[X],
    outputs=outputs(X, 2, 3),
    notes=["softmax and background are ignored, since V3 applies the logistic function everywhere"],
)
test_v2 = case("Yolo", v2(), inputs=[X], outputs=outputs(X, 2, 3))
test_v2_softmax = case("Yolo", v2(softmax=True), inputs=[X], outputs=outputs(X, 2, 3, scores="soft"))
test_v2_background = case("Yolo", v2(background=True), inputs=[X], outputs=outputs(X, 2, 3, "raw"))
test_v2_both = case(
    "Yolo", v2(softmax=True, background=True), inputs=[X], outputs=outputs(X, 2, 3, scores="joint")
)
test_ascend_pads = case("Yolo", SMALL, dialect="ascend", inputs=[X], outputs=padded(outputs(X, 2, 3)))
test_ascend_unpadded = case(
    "Yolo", {**SMALL, "padded": False}, dialect="ascend", inputs=[X], outputs=outputs(X, 2, 3)
)
test_padded = case("Yolo", {**SMALL, "padded": True}, inputs=[X], outputs=padded(outputs(X, 2, 3)))
test_softmaxtree = case(
    "Yolo", {**SMALL, "softmaxtree": True}, inputs=[X], outputs=outputs(X, 2, 3), notes=["softmaxtree is ignored"]
)


def test_buffers_have_the_documented_lengths() -> None:
    """The buffers of 13 x 13 cells with 3 boxes and 80 classes have the lengths that Ascend documents."""
    made = case("Yolo", dialect="ascend", inputs=[noise(1, 255, 13, 13)], outputs=[[0]] * 3).case
    shapes = [y.shape for y in made.bind()(made.inputs)]
    assert shapes == [(1, 12, 192), (1, 528), (1, 80, 528)]


test_rejects_too_few_channels_for_boxes = rejects(
    "Yolo",
    {**SMALL, "classes": 4},
    inputs=[X],
    tops=3,
    text="2 boxes of 4 coordinates, the objectness and 4 classes make 18 channels, got 16",
)
test_rejects_missing_outputs = rejects(
    "Yolo", SMALL, inputs=[X], tops=1, text="three outputs (coordinates, objectness, classes), got 1"
)
test_rejects_5_coords = rejects("Yolo", {**SMALL, "coords": 5}, inputs=[X], tops=3, text="coords must be 4, got 5")
test_rejects_too_many_classes = rejects(
    "Yolo", {"classes": 1025}, inputs=[X], tops=3, text="classes must lie in 1..1024, got 1025"
)
test_rejects_boxes_of_0 = rejects("Yolo", {"boxes": 0}, inputs=[X], tops=3, text="boxes must be at least 1, got 0")
test_rejects_unknown_yolo_version = rejects(
    "Yolo", {"yolo_version": "V5"}, inputs=[X], tops=3, text="yolo_version must be 'V2' or 'V3', got 'V5'"
)
test_from_text = reads(
    """layer { name: "y" type: "Yolo" bottom: "in0" top: "coords" top: "obj" top: "classes" yolo_param {
         boxes: 3 coords: 4 classes: 80 yolo_version: "V3" softmax: true background: false } }""",
    dialect="ascend",
    boxes=3,
    yolo_version="V3",
    softmax=True,
    padded=True,
)
