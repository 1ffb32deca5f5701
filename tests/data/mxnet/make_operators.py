"""Make operators.npz: what MXNet computes for networks of one operator, and for some small networks.

python make_operators.py    (in Python 3.8 with mxnet 1.9.1 and numpy 1.23)
"""

from __future__ import annotations

from pathlib import Path

import mxnet as mx
import numpy as np
from recording import F, W, case, network, noise, save


def windows():
    x, b = noise(2, 4, 7, 6), W(noise(6, seed=9))
    for title, shape, how in (
        ("plain", (6, 4, 3, 3), {}),
        ("stride", (6, 4, 3, 2), {"stride": (2, 3), "pad": (1, 0)}),
        ("dilate", (6, 4, 2, 3), {"dilate": (2, 1), "pad": (0, 2)}),
        ("groups", (6, 2, 3, 3), {"num_group": 2}),
        ("tuning", (6, 4, 1, 1), {"workspace": 64, "cudnn_tune": "off", "cudnn_off": True, "layout": "NCHW"}),
    ):
        case(f"Convolution {title}", [x, W(noise(*shape, seed=1)), b], kernel=shape[2:], num_filter=6, **how)
    case("Convolution no bias", [x, W(noise(4, 1, 3, 3))], kernel=(3, 3), num_filter=4, num_group=4, no_bias=True)
    case(
        "Convolution 1d", [noise(2, 4, 9), W(noise(3, 4, 3)), W(noise(3))], kernel=(3,), num_filter=3, stride=(2,)
    )
    case("Convolution 3d", [noise(1, 2, 5, 6, 4), W(noise(3, 2, 2, 3, 2)), W(noise(3))], kernel=(2, 3, 2),
         num_filter=3, pad=(1, 1, 0))  # fmt: skip
    for kind in ("max", "avg", "sum"):
        for title, how in (
            ("valid", {"kernel": (3, 2), "stride": (2, 2)}),
            ("full", {"kernel": (3, 2), "stride": (2, 3), "pooling_convention": "full"}),
            ("padded", {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
            ("full padded", {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pooling_convention": "full"}),
            ("global", {"global_pool": True, "kernel": (2, 2)}),
            ("outside", {"kernel": (2, 2), "stride": (4, 5), "pad": (1, 0), "pooling_convention": "full"}),
        ):
            case(f"Pooling {kind} {title}", [x], pool_type=kind, **how)
            if kind in ("max", "avg", "sum"):
                case(f"Pooling_v1 {kind} {title}", [-np.abs(x)], pool_type=kind, **how)
    for p in (1, 2, 3):
        how = {"kernel": (2, 2), "stride": (3, 2), "pad": (1, 0), "pooling_convention": "full"}
        case(f"Pooling lp {p}", [x], pool_type="lp", p_value=p, **how)
        case(f"Pooling lp {p} global", [x], pool_type="lp", p_value=p, global_pool=True)
    how = {"kernel": (3, 2), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg", "count_include_pad": False}
    case("Pooling exclusive", [x], **how)
    case("Pooling exclusive full", [x], pooling_convention="full", **how)
    case("Pooling 1d", [noise(2, 3, 9)], kernel=(3,), stride=(2,), pad=(1,), pool_type="avg")
    case("Pooling 3d", [noise(2, 3, 5, 6, 4)], kernel=(3, 2, 2), stride=(2, 2, 2))


def matrices():
    w, b = W(noise(5, 12, seed=1)), W(noise(5, seed=2))
    case("FullyConnected", [noise(2, 3, 4), w, b], num_hidden=5)
    case("FullyConnected no bias", [noise(2, 3, 4), w], num_hidden=5, no_bias=True)
    case("FullyConnected rows", [noise(2, 3, 12), w, b], num_hidden=5, flatten=False)


def activations():
    x = noise(2, 3, 4, scale=3)
    for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign"):
        case(f"Activation {kind}", [x], act_type=kind)
    for title, how in (
        ("samples", {}),
        ("channels", {"multi_output": True}),
        ("last axis", {"preserve_shape": True}),
    ):
        symbol = mx.sym.SoftmaxOutput(mx.sym.Variable("x"), name="softmax", grad_scale=2, ignore_label=1, **how)
        network(f"SoftmaxOutput {title}", symbol, {"x": x})


def elements():
    a, b = noise(2, 3, 4), noise(2, 3, 4, seed=1)
    for kind in ("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div"):
        case(kind, [a, b])


def shapes():
    case("Flatten", [noise(2, 3, 4)])
    case("Concat", [noise(2, 3, 4), noise(2, 1, 4), noise(2, 2, 4)])
    case("Concat last axis", [noise(2, 3, 4), noise(2, 3, 1)], dim=-1)


def networks():
    x = mx.sym.Variable("data", shape=(0, 1, 12, 12))
    y = mx.sym.Convolution(x, kernel=(5, 5), num_filter=6, name="conv1")
    y = mx.sym.Activation(y, act_type="tanh", name="tanh1")
    y = mx.sym.Pooling(y, pool_type="max", kernel=(2, 2), stride=(2, 2), name="pool1")
    y = mx.sym.Convolution(y, kernel=(3, 3), pad=(1, 1), num_filter=6, name="conv2") + y
    y = mx.sym.FullyConnected(mx.sym.Flatten(y), num_hidden=10, name="fc")
    y = mx.sym.SoftmaxOutput(y, name="softmax")
    trained("lenet", y, {"data": noise(2, 1, 12, 12)})


def trained(name, symbol, inputs):
    """Add a network with the weights of MXNet's initializer, in the form of a Module."""
    module = mx.mod.Module(
        symbol, data_names=[*inputs], label_names=[n for n in symbol.list_arguments() if "label" in n]
    )
    labels = [n for n in symbol.list_arguments() if "label" in n]
    shapes = dict(zip(symbol.list_arguments(), symbol.infer_shape(**{n: a.shape for n, a in inputs.items()})[0]))
    module.bind(
        [(n, a.shape) for n, a in inputs.items()], [(n, shapes[n]) for n in labels] or None, for_training=False
    )
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    weights, states = module.get_params()
    states = {n: noise(*v.shape, seed=len(n)) ** 2 + F(0.1) for n, v in states.items()}
    network(name, symbol, inputs, {n: v.asnumpy() for n, v in weights.items()}, states)


if __name__ == "__main__":
    for make in (windows, matrices, activations, elements, shapes, networks):
        make()
    save(Path(__file__).with_name("operators.npz"))
