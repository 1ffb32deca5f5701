"""SE-BN-Inception (arXiv 1709.01507 on 1502.03167), 224 x 224, as a Caffe network.

Two small fully connected layers compute a weight per channel of each inception block from the means of its
channels.
"""

from __future__ import annotations

from typing import Any

from benchmarks.networks.mobilenet_v2 import unit
from benchmarks.prototxt import Prototxt, Word

_AVE, _MAX = Word("AVE"), Word("MAX")
BLOCKS = (
    ("3a", 64, 64, 64, 64, 96, _AVE, 32),
    ("3b", 64, 64, 96, 64, 96, _AVE, 64),
    ("3c", 0, 128, 160, 64, 96, _MAX, 0),
    ("4a", 224, 64, 96, 96, 128, _AVE, 128),
    ("4b", 192, 96, 128, 96, 128, _AVE, 128),
    ("4c", 160, 128, 160, 128, 160, _AVE, 128),
    ("4d", 96, 128, 192, 160, 192, _AVE, 128),
    ("4e", 0, 128, 192, 192, 256, _MAX, 0),
    ("5a", 352, 192, 320, 160, 224, _AVE, 128),
    ("5b", 352, 192, 320, 192, 224, _MAX, 128),
)
"""(name, 1x1, 3x3 reduced, 3x3, double 3x3 reduced, double 3x3, pooling, its projection), figure 5 of 1502.03167.
Where 1x1 is 0 the block halves the map."""


def text() -> str:
    """Return the prototxt."""
    net = Prototxt("se_bn_inception")
    x = unit(net, "conv1", net.input("data", (1, 3, 224, 224)), 64, kernel=7, stride=2)
    x = pool(net, "pool1", x, _MAX, 3, 2)
    x = unit(net, "conv2_reduce", x, 64)
    x = unit(net, "conv2", x, 192, kernel=3)
    x = pool(net, "pool2", x, _MAX, 3, 2)
    channels = 192
    for name, *sizes in BLOCKS:
        x, channels = inception(net, f"inception_{name}", x, channels, sizes)
    x = net.layer("pool5", "Pooling", x, pooling_param={"pool": _AVE, "global_pooling": True})
    x = net.layer("fc", "InnerProduct", x, inner_product_param={"num_output": 1000})
    net.layer("prob", "Softmax", x)
    return net.text()


def pool(net: Prototxt, name: str, x: str, kind: Word, kernel: int, stride: int) -> str:
    """Add pooling that keeps the size at stride 1."""
    pad = kernel // 2 if stride == 1 else 0
    return net.layer(
        name, "Pooling", x, pooling_param={"pool": kind, "kernel_size": kernel, "stride": stride, "pad": pad}
    )


def inception(net: Prototxt, name: str, x: str, channels: int, sizes: list[Any]) -> tuple[str, int]:
    """Add one block. Return its output and the number of its channels."""
    single, three_reduce, three, double_reduce, double, kind, project = sizes
    stride = 1 if single else 2
    branches = [unit(net, f"{name}/1x1", x, single)] if single else []
    y = unit(net, f"{name}/3x3_reduce", x, three_reduce)
    branches.append(unit(net, f"{name}/3x3", y, three, kernel=3, stride=stride))
    y = unit(net, f"{name}/double_reduce", x, double_reduce)
    y = unit(net, f"{name}/double_1", y, double, kernel=3)
    branches.append(unit(net, f"{name}/double_2", y, double, kernel=3, stride=stride))
    y = pool(net, f"{name}/pool", x, kind, 3, stride)
    branches.append(unit(net, f"{name}/project", y, project) if project else y)
    total = single + three + double + (project or channels)
    joined = net.layer(f"{name}/output", "Concat", branches)
    return weigh(net, name, joined, total), total


def weigh(net: Prototxt, name: str, x: str, channels: int) -> str:
    """Add squeeze and excitation with reduction 16."""
    y = net.layer(f"{name}/squeeze", "Pooling", x, pooling_param={"pool": _AVE, "global_pooling": True})
    y = net.layer(f"{name}/down", "InnerProduct", y, inner_product_param={"num_output": channels // 16})
    net.layer(f"{name}/down_relu", "ReLU", y, [y])
    y = net.layer(f"{name}/up", "InnerProduct", y, inner_product_param={"num_output": channels})
    net.layer(f"{name}/prob", "Sigmoid", y, [y])
    y = net.layer(f"{name}/weights", "Reshape", y, reshape_param={"shape": {"dim": [-1, channels]}})
    return net.layer(f"{name}/scale", "Scale", [x, y], scale_param={"axis": 0, "bias_term": False})
