"""SSD on VGG-16 for pictures of 300 x 300 pixels and 21 classes (Liu et al., arXiv 1512.02325), with
DetectionOutput."""

from __future__ import annotations

from benchmarks.networks.qr_detector import head
from benchmarks.prototxt import Prototxt, Word

CLASSES = 21
BODY = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""The channels and the number of convolutions of each stage of VGG-16."""
EXTRA = (("conv6", 256, 512, 2), ("conv7", 128, 256, 2), ("conv8", 128, 256, 1), ("conv9", 128, 256, 1))
"""The name, the channels of the 1x1 and of the 3x3 convolution, and the stride of each extra pair."""
SIZES = (30, 60, 111, 162, 213, 264, 315)
"""The sizes of the boxes of each map, in pixels; the last one is the larger size of the last map."""
RATIOS = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
DETECTION = {
    "num_classes": CLASSES,
    "share_location": True,
    "background_label_id": 0,
    "nms_param": {"nms_threshold": 0.45, "top_k": 400},
    "code_type": Word("CENTER_SIZE"),
    "keep_top_k": 200,
    "confidence_threshold": 0.01,
}
"""The settings of DetectionOutput in SSD."""


def text() -> str:
    """Return the prototxt."""
    net = Prototxt("vgg_ssd300")
    net.input("data", (1, 3, 300, 300))
    places, scores, priors = [], [], []
    for i, (x, ratios) in enumerate(zip(maps(net), RATIOS)):
        number = 2 + 2 * len(ratios)
        places.append(head(net, f"map{i}_loc", x, 4 * number))
        scores.append(head(net, f"map{i}_conf", x, CLASSES * number))
        sizes = {"min_size": SIZES[i], "max_size": SIZES[i + 1], "aspect_ratio": list(ratios)}
        box = {**sizes, "flip": True, "clip": False, "variance": [0.1, 0.1, 0.2, 0.2]}
        priors.append(net.layer(f"map{i}_prior", "PriorBox", [x, "data"], prior_box_param=box))
    net.layer("mbox_loc", "Concat", places, concat_param={"axis": 1})
    x = net.layer("mbox_conf", "Concat", scores, concat_param={"axis": 1})
    x = net.layer("mbox_conf_reshape", "Reshape", x, reshape_param={"shape": {"dim": [0, -1, CLASSES]}})
    x = net.layer("mbox_conf_softmax", "Softmax", x, softmax_param={"axis": 2})
    x = net.layer("mbox_conf_flatten", "Flatten", x, flatten_param={"axis": 1})
    boxes = net.layer("mbox_priorbox", "Concat", priors, concat_param={"axis": 2})
    net.layer("detection_out", "DetectionOutput", ["mbox_loc", x, boxes], detection_output_param=DETECTION)
    return net.text()


def maps(net: Prototxt) -> list[str]:
    """Add the body, and return the six blobs whose positions have boxes."""
    x, found = "data", []
    for i, (channels, number) in enumerate(BODY, 1):
        for k in range(1, number + 1):
            x = convolution(net, f"conv{i}_{k}", x, channels, 3, pad=1)
        if i == 4:
            found.append(net.layer("conv4_3_norm", "Normalize", x, norm_param={"across_spatial": False}))
        last = i == len(BODY)
        size = {"kernel_size": 3, "stride": 1, "pad": 1} if last else {"kernel_size": 2, "stride": 2}
        x = net.layer(f"pool{i}", "Pooling", x, pooling_param={"pool": Word("MAX"), **size})
    x = convolution(net, "fc6", x, 1024, 3, pad=6, dilation=6)
    found.append(convolution(net, "fc7", x, 1024, 1))
    for name, narrow, wide, stride in EXTRA:
        x = convolution(net, f"{name}_1", found[-1], narrow, 1)
        found.append(convolution(net, f"{name}_2", x, wide, 3, stride=stride, pad=stride - 1))
    return found


def convolution(net: Prototxt, name: str, x: str, out: int, kernel: int, **params: int) -> str:
    """Add a convolution with a ReLU."""
    param = {"num_output": out, "kernel_size": kernel, **{k: v for k, v in params.items() if v}}
    x = net.layer(name, "Convolution", x, convolution_param=param)
    return net.layer(f"{name}_relu", "ReLU", x)
