"""An SSD detector for QR codes of the same kind and size as WeChat's, whose files may not be copied.

Gray 384 x 384, depthwise blocks of few channels, two maps of boxes, one class besides the background.
"""

from __future__ import annotations

from benchmarks.networks.mobilenet_v2 import block, unit
from benchmarks.prototxt import Prototxt, Word

CLASSES = 2


def text() -> str:
    """Return the prototxt, up to mbox_loc and mbox_conf_flatten, the inputs of DetectionOutput."""
    net = Prototxt("qr_detector")
    x = unit(net, "stage1", net.input("data", (1, 1, 384, 384)), 16, kernel=3, stride=2)
    x = net.layer("stage1/pool", "Pooling", x, pooling_param={"pool": Word("MAX"), "kernel_size": 2, "stride": 2})
    x = block(net, "stage2", x, 16, 1, 16, 2)
    for i in range(3):
        x = block(net, f"stage3_{i}", x, 16 if i == 0 else 32, 4, 32, 2 if i == 0 else 1)
    first = x
    for i in range(3):
        x = block(net, f"stage4_{i}", x, 32 if i == 0 else 64, 4, 64, 2 if i == 0 else 1)
    boxes, scores = [], []
    for name, source in (("first", first), ("second", x)):
        boxes.append(head(net, f"{name}_loc", source, 6 * 4))
        scores.append(head(net, f"{name}_conf", source, 6 * CLASSES))
    net.layer("mbox_loc", "Concat", boxes, concat_param={"axis": 1})
    x = net.layer("mbox_conf", "Concat", scores, concat_param={"axis": 1})
    x = net.layer("mbox_conf_reshape", "Reshape", x, reshape_param={"shape": {"dim": [0, -1, CLASSES]}})
    x = net.layer("mbox_conf_softmax", "Softmax", x, softmax_param={"axis": 2})
    net.layer("mbox_conf_flatten", "Flatten", x, flatten_param={"axis": 1})
    return net.text()


def head(net: Prototxt, name: str, x: str, out: int) -> str:
    """Add a prediction head, with the positions as the first axes of its output."""
    convolution = {"num_output": out, "pad": 1, "kernel_size": 3}
    x = net.layer(name, "Convolution", x, convolution_param=convolution)
    x = net.layer(f"{name}_perm", "Permute", x, permute_param={"order": [0, 2, 3, 1]})
    return net.layer(f"{name}_flat", "Flatten", x, flatten_param={"axis": 1})
