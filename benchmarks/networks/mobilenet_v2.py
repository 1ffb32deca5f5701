"""MobileNet v2 (arXiv 1801.04381), width 1, 224 x 224, as a Caffe network with BatchNorm, Scale and ReLU."""

from __future__ import annotations

from benchmarks.prototxt import Prototxt, Word

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""(expansion, channels, blocks, stride of the first block), table 2 of the paper."""


def text() -> str:
    """Return the prototxt."""
    net = Prototxt("mobilenet_v2")
    x = unit(net, "conv1", net.input("data", (1, 3, 224, 224)), 32, kernel=3, stride=2)
    channels = 32
    for s, (expansion, out, blocks, stride) in enumerate(STAGES):
        for b in range(blocks):
            x = block(net, f"block{s + 1}_{b + 1}", x, channels, expansion, out, stride if b == 0 else 1)
            channels = out
    x = unit(net, "conv_last", x, 1280)
    x = net.layer("pool", "Pooling", x, pooling_param={"pool": Word("AVE"), "global_pooling": True})
    x = net.layer("fc", "Convolution", x, convolution_param={"num_output": 1000, "kernel_size": 1})
    net.layer("prob", "Softmax", x)
    return net.text()


def unit(
    net: Prototxt, name: str, x: str, out: int, kernel: int = 1, stride: int = 1, group: int = 1, relu: bool = True
) -> str:
    """Add a convolution without bias, its normalisation, its scale and a ReLU. Return the output's name."""
    convolution = {
        "num_output": out,
        "bias_term": False,
        "pad": kernel // 2,
        "kernel_size": kernel,
        "stride": stride,
        "group": group,
    }
    top = net.layer(name, "Convolution", x, convolution_param=convolution)
    net.layer(f"{name}/bn", "BatchNorm", top, [top], batch_norm_param={"use_global_stats": True})
    net.layer(f"{name}/scale", "Scale", top, [top], scale_param={"bias_term": True})
    if relu:
        net.layer(f"{name}/relu", "ReLU", top, [top])
    return top


def block(net: Prototxt, name: str, x: str, channels: int, expansion: int, out: int, stride: int) -> str:
    """Add an inverted residual block: expand, depthwise convolution, project. The input is added if the shapes
    allow it.
    """
    wide = channels * expansion
    y = unit(net, f"{name}/expand", x, wide) if expansion > 1 else x
    y = unit(net, f"{name}/dw", y, wide, kernel=3, stride=stride, group=wide)
    y = unit(net, f"{name}/project", y, out, relu=False)
    if stride == 1 and channels == out:
        return net.layer(f"{name}/sum", "Eltwise", [x, y])
    return y
