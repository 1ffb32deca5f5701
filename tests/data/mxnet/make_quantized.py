"""Make quantized.npz: what MXNet computes with oneDNN for quantized operators, and for networks that it quantizes.

python make_quantized.py    (in Python 3.8 with mxnet 1.9.1 and numpy 1.23)
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet.contrib import quantization
from mxnet.gluon import HybridBlock, data, nn
from recording import CASES, F, case, network, noise, save


def whole(dtype, *shape, seed=0):
    limits = np.iinfo(dtype)
    return (
        np.random.RandomState(seed).randint(max(limits.min, -(2**24)), min(limits.max, 2**24), shape).astype(dtype)
    )


def limit(value):
    return np.array([value], F)


def operators():
    x = noise(2, 3, 5, 4)
    for kind, how in (
        ("int8", {"out_type": "int8"}),
        ("calibrated", {"out_type": "int8", "min_calib_range": -1.5, "max_calib_range": 2.0}),
        ("auto", {"out_type": "auto", "min_calib_range": -1.5, "max_calib_range": 2.0}),
        ("auto positive", {"out_type": "auto", "min_calib_range": 0.0, "max_calib_range": 1.7}),
        ("uint8", {"out_type": "uint8", "min_calib_range": 0.0, "max_calib_range": 2.0}),
    ):
        case(f"_contrib_quantize_v2 {kind}", [x], **how)
    case("_contrib_quantize_v2 uint8 range", [np.abs(x)], out_type="uint8")
    for dtype in ("int8", "uint8"):
        case(f"_contrib_quantize {dtype}", [x, limit(-1.5), limit(2)], out_type=dtype)
        q = whole(dtype, 2, 3, 6, 4)
        ends = [limit(-1.5), limit(2)]
        case(f"_contrib_dequantize {dtype}", [q, *ends])
        for kind in ("max", "avg"):
            how = {"kernel": (2, 2), "stride": (2, 2), "pool_type": kind}
            case(f"_contrib_quantized_pooling {kind} {dtype}", [q, *ends], **how)
        case(
            f"_contrib_quantized_pooling global {dtype}",
            [q, *ends],
            pool_type="avg",
            global_pool=True,
            kernel=(1, 1),
        )
        case(f"_contrib_quantized_flatten {dtype}", [q, *ends])
        more = [limit(-2), limit(2), limit(-3), limit(2.5)]
        case(f"_contrib_quantized_concat {dtype}", [q, whole(dtype, 2, 2, 6, 4, seed=1), *more], num_args=2)
        case(f"_contrib_quantized_elemwise_add {dtype}", [q, whole(dtype, 2, 3, 6, 4, seed=1), *more])
        calibrated = {"min_calib_range": -4.0, "max_calib_range": 4.5}
        case(f"_contrib_quantized_elemwise_add calibrated {dtype}", [q, whole(dtype, 2, 3, 6, 4, seed=1), *more],
             **calibrated)  # fmt: skip
        w, b = whole("int8", 5, 72, seed=2), whole("int8", 5, seed=3)
        weights = [limit(-1), limit(1.2), limit(-0.5), limit(0.6)]
        case(f"_contrib_quantized_fully_connected {dtype}", [q, w, b, *ends, *weights], num_hidden=5)
    q = whole("int8", 2, 3, 6, 4)
    case("_contrib_quantized_act", [q, limit(-1.5), limit(2)], act_type="relu")
    u = whole("uint8", 2, 3, 6, 4, seed=1)
    more = [limit(0), limit(2), limit(-3), limit(2.5)]
    case("_contrib_quantized_concat mixed", [u, q, *more], num_args=2)
    case("_contrib_quantized_elemwise_add mixed", [u, q, *more], min_calib_range=-4.0, max_calib_range=4.5)
    for kind, how in (
        ("int8", {}),
        ("calibrated", {"min_calib_range": -0.3, "max_calib_range": 0.5}),
        ("auto", {"min_calib_range": 0.0, "max_calib_range": 0.5, "out_type": "auto"}),
    ):
        case(f"_contrib_requantize {kind}", [whole("int32", 2, 3, 4), limit(-100), limit(100)], **how)
    w, b = whole("int8", 4, 3, 3, 2, seed=2), whole("int8", 4, seed=3)
    more = [limit(0), limit(2), limit(-1), limit(1.2)]
    how = {"kernel": (3, 2), "num_filter": 4, "stride": (2, 1), "pad": (1, 0), "layout": "NCHW"}
    case("_contrib_quantized_conv", [u, w, b, *more, limit(-0.5), limit(0.6)], **how)


class Residual(HybridBlock):
    """A network whose sums have arrays of int8 and of uint8, with an activation and without."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.first, self.norm = nn.Conv2D(8, 3, padding=1, use_bias=False), nn.BatchNorm()
            self.left, self.left_norm = nn.Conv2D(8, 3, padding=1), nn.BatchNorm()
            self.right, self.last = nn.Conv2D(8, 1), nn.Conv2D(8, 3, padding=1)
            self.pool, self.dense = nn.MaxPool2D(2), nn.Dense(5)

    def hybrid_forward(self, F, x):
        y = F.Activation(self.norm(self.first(x)), act_type="relu")
        y = F.Activation(self.left_norm(self.left(y)) + self.right(y), act_type="relu")
        return self.dense(self.pool(self.last(y) + y))


def networks():
    mx.random.seed(5)
    net = Residual()
    net.initialize(mx.init.Xavier(rnd_type="gaussian", magnitude=4))
    net.hybridize()
    x = np.abs(noise(4, 3, 8, 8))
    net(mx.nd.array(x))
    for name, values in net.collect_params().items():
        if name.endswith("running_var"):
            values.set_data(mx.nd.array(np.abs(noise(*values.shape, seed=3)) + F(0.5)))
        elif name.endswith(("gamma", "beta", "running_mean")):
            values.set_data(
                mx.nd.array(noise(*values.shape, seed=len(name), scale=0.3) + F(name.endswith("gamma")))
            )
    loader = data.DataLoader(data.ArrayDataset(mx.nd.array(x), mx.nd.zeros(4)), batch_size=4)
    quantized = quantization.quantize_net(net, quantized_dtype="auto", calib_mode="naive", calib_data=loader,
                                          num_calib_examples=4, ctx=mx.cpu())  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        quantized.hybridize()
        quantized(mx.nd.array(x))
        quantized.export(f"{folder}/net")
        symbol, arrays = mx.sym.load(f"{folder}/net-symbol.json"), mx.nd.load(f"{folder}/net-0000.params")
    arrays = {name.split(":")[1]: array.asnumpy() for name, array in arrays.items()}
    states = {name: arrays[name] for name in symbol.list_auxiliary_states()}
    weights = {name: array for name, array in arrays.items() if name not in states}
    given = {"data": np.round(x, 2)}
    network("network", symbol, given, weights, states)
    inner = [
        n for n in symbol.get_internals().list_outputs() if n.startswith("quantized_sg") and n.endswith("output")
    ]
    group = mx.sym.Group([symbol.get_internals()[name] for name in inner[:-1]])
    network("layers", group, given, {n: weights[n] for n in group.list_arguments() if n in weights}, states)
    float_graph = net(mx.sym.Variable("data")).get_backend_symbol("MKLDNN")
    floats = {name: value.data().asnumpy() for name, value in net.collect_params().items()}
    states = {name: floats[name] for name in float_graph.list_auxiliary_states()}
    network("fused", float_graph, given, {n: a for n, a in floats.items() if n not in states}, states)
    print(
        {
            name: [n["op"] for n in json.loads(CASES[-i]["symbol"])["nodes"] if n["op"] != "null"]
            for i, name in ((1, "fused"), (3, "network"))
        }
    )


if __name__ == "__main__":
    operators()
    networks()
    save(Path(__file__).with_name("quantized.npz"))
