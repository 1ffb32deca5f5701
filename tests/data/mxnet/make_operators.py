"""Make operators.npz: what MXNet computes for networks of one operator, and for some small networks.

python make_operators.py    (in Python 3.8 with mxnet 1.9.1 and numpy 1.23)
"""

from __future__ import annotations

import json
import struct
import tempfile
from pathlib import Path

import mxnet as mx
import numpy as np
from recording import CASES, F, W, case, network, noise, save

SAME_SHAPES = """elemwise_add elemwise_sub elemwise_mul elemwise_div _mod _power _maximum _minimum _hypot _equal
_not_equal _greater _greater_equal _lesser _lesser_equal _logical_and _logical_or _logical_xor _grad_add"""
OF_TWO = """add sub mul div mod power maximum minimum hypot equal not_equal greater greater_equal lesser
lesser_equal logical_and logical_or logical_xor"""
OF_ONE = "abs sign negative square exp expm1 sin cos tan arctan sinh cosh floor ceil trunc fix round rint erf cbrt"


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
    for p in (1, 2, 3):
        how = {"kernel": (2, 2), "stride": (3, 2), "pad": (1, 0), "pooling_convention": "full"}
        case(f"Pooling lp {p}", [x], pool_type="lp", p_value=p, **how)
        case(f"Pooling lp {p} global", [x], pool_type="lp", p_value=p, global_pool=True)
    how = {"kernel": (3, 2), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg", "count_include_pad": False}
    case("Pooling exclusive", [x], **how)
    case("Pooling exclusive full", [x], pooling_convention="full", **how)
    case("Pooling 1d", [noise(2, 3, 9)], kernel=(3,), stride=(2,), pad=(1,), pool_type="avg")
    case("Pooling 3d", [noise(2, 3, 5, 6, 4)], kernel=(3, 2, 2), stride=(2, 2, 2))


def transposed():
    x = noise(2, 4, 5, 6)
    for title, shape, how in (
        ("plain", (4, 3, 3, 2), {}),
        ("stride", (4, 3, 4, 3), {"stride": (2, 3), "pad": (1, 0), "adj": (1, 2)}),
        ("dilate", (4, 3, 2, 3), {"dilate": (2, 1), "pad": (0, 1)}),
        ("groups", (4, 2, 3, 3), {"num_group": 2, "stride": (2, 2), "workspace": 8}),
    ):
        filters = shape[1] * how.get("num_group", 1)
        case(f"Deconvolution {title}", [x, W(noise(*shape, seed=1))], kernel=shape[2:], num_filter=filters, **how)
    case("Deconvolution bias", [x, W(noise(4, 3, 2, 2)), W(noise(3))], kernel=(2, 2), num_filter=3, no_bias=False)
    doubles = [x.astype(np.float64), W(noise(4, 3, 4, 4).astype(np.float64))]  # oneDNN refuses target_shape
    case("float64 Deconvolution", doubles, kernel=(4, 4), num_filter=3, stride=(2, 2), target_shape=(10, 11))
    case("Deconvolution 1d", [noise(2, 4, 5), W(noise(4, 3, 3))], kernel=(3,), num_filter=3, stride=(2,))


def resizing():
    x, y = noise(2, 3, 4, 5), noise(2, 2, 8, 10, seed=1)
    case("UpSampling nearest", [x], scale=3, sample_type="nearest", num_args=1)
    case("UpSampling concat", [x, y], scale=4, sample_type="nearest", num_args=2)
    case(
        "UpSampling sum",
        [x, noise(2, 3, 8, 10)],
        scale=2,
        sample_type="nearest",
        num_args=2,
        multi_input_mode="sum",
    )
    for scale in (2, 3, 4):
        side = 2 * scale - scale % 2
        case(f"UpSampling bilinear {scale}", [x, W(noise(3, 1, side, side))], scale=scale, sample_type="bilinear",
             num_args=2, num_filter=3)  # fmt: skip
    kind = "_contrib_BilinearResize2D"
    for corners in (True, False):
        for size in ((8, 10), (7, 3), (1, 13), (4, 5), (2, 2)):
            case(f"{kind} {size} {corners}", [x], height=size[0], width=size[1], align_corners=corners)
        case(f"{kind} scale {corners}", [x], scale_height=2.5, scale_width=0.7, align_corners=corners)
        case(f"{kind} like {corners}", [x, y], mode="like", align_corners=corners)
    for title, size in (("none", ()), ("one", (3,)), ("two", (2, 5)), ("more", (7, 1))):
        case(f"_contrib_AdaptiveAvgPooling2D {title}", [x], output_size=size)
    for mode in ("constant", "edge", "reflect"):
        case(f"Pad {mode}", [x], mode=mode, pad_width=(0, 0, 0, 0, 1, 2, 3, 0), constant_value=1.5)
    case("Crop size", [x], h_w=(2, 3), offset=(1, 2), num_args=1)
    case("Crop like", [y, x], num_args=2, center_crop=True)
    case("Crop like at", [y, x], num_args=2, offset=(3, 1))
    case("space_to_depth", [noise(2, 3, 4, 6)], block_size=2)
    case("depth_to_space", [noise(2, 8, 3, 4)], block_size=2)


def normalization():
    x = noise(2, 4, 3, 5)
    g, b, m, v = (noise(4, seed=i) for i in range(4))
    v = v * v + F(0.5)
    for kind in ("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm"):
        more = {"key": "k"} if "Sync" in kind else {}
        case(f"{kind} defaults", [x, W(g), W(b)], (m, v), **more)
        case(f"{kind} gamma", [x, W(g), W(b)], (m, v), fix_gamma=False, eps=2e-5, momentum=0.9, **more)
        case(f"{kind} global", [x, W(g), W(b)], (m, v), use_global_stats=True, fix_gamma=False, **more)
    case("BatchNorm axis", [x, W(g[:3]), W(b[:3])], (m[:3], v[:3]), axis=2, fix_gamma=False)
    case("BatchNorm last axis", [noise(2, 3, 4), W(g), W(b)], (m, v), axis=-1)
    case("BatchNorm matrix", [noise(3, 4), W(g), W(b)], (m, v), fix_gamma=False)
    case("InstanceNorm", [x, W(g), W(b)], eps=1e-2)
    case("InstanceNorm 1d", [noise(2, 4, 6), W(g), W(b)])
    case("LayerNorm", [noise(2, 3, 4), W(g), W(b)])
    case("LayerNorm axis", [x, W(g), W(b)], axis=1, eps=1e-2)
    case("GroupNorm", [x, W(g[:2]), W(b[:2])], num_groups=2)
    case("GroupNorm one", [noise(2, 4, 3), W(g[:1]), W(b[:1])], eps=1e-2)
    for mode in ("instance", "channel", "spatial"):
        case(f"L2Normalization {mode}", [x], mode=mode, eps=1e-3)
    case("LRN", [noise(2, 6, 3, 2)], nsize=3)
    case("LRN more", [noise(2, 6, 3, 2)], nsize=5, alpha=0.5, beta=0.6, knorm=1.5)


def matrices():
    w, b = W(noise(5, 12, seed=1)), W(noise(5, seed=2))
    case("FullyConnected", [noise(2, 3, 4), w, b], num_hidden=5)
    case("FullyConnected no bias", [noise(2, 3, 4), w], num_hidden=5, no_bias=True)
    case("FullyConnected rows", [noise(2, 3, 12), w, b], num_hidden=5, flatten=False)
    case("dot", [noise(3, 4), noise(4, 5, seed=1)])
    case("dot transposed", [noise(4, 3), noise(5, 4, seed=1)], transpose_a=True, transpose_b=True)
    case("dot vectors", [noise(4), noise(4, seed=1)])
    case("dot more axes", [noise(2, 3, 4), noise(4, 5, 2, seed=1)])
    case("dot of first axes", [noise(2, 3, 4), noise(2, 5, 3, seed=1)], transpose_a=True)
    case("dot of last axes", [noise(2, 3, 4), noise(3, 5, 4, seed=1)], transpose_b=True)
    case("batch_dot", [noise(2, 3, 4), noise(2, 4, 5, seed=1)])
    case("batch_dot transposed", [noise(2, 4, 3), noise(2, 5, 4, seed=1)], transpose_a=True, transpose_b=True)
    case("_linalg_gemm2", [noise(2, 3, 4), noise(2, 5, 4, seed=1)], transpose_b=True, alpha=0.5)
    case("_linalg_gemm2 matrix", [noise(4, 3), noise(4, 5, seed=1)], transpose_a=True)
    case("_contrib_div_sqrt_dim", [noise(2, 3, 5)])
    x, weights = noise(5, 2, 3 * 12), noise(8, 5, 5, seed=1)
    case("_contrib_interleaved_matmul_selfatt_qk", [noise(5, 2, 4 * 3 * 3)], heads=4)
    case("_contrib_interleaved_matmul_selfatt_valatt", [x, weights], heads=4)


def activations():
    x = noise(2, 3, 4, scale=3)
    for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign"):
        case(f"Activation {kind}", [x], act_type=kind)
        if kind != "softrelu":
            case(kind, [x])
    case("hard_sigmoid", [x])
    case("hard_sigmoid other", [x], alpha=0.3, beta=0.4)
    symbol = mx.sym.LeakyReLU(mx.sym.Variable("x"), act_type="rrelu", lower_bound=0.2, upper_bound=0.5)
    network("LeakyReLU rrelu", symbol[0], {"x": x})
    for kind in ("leaky", "elu", "selu", "gelu"):
        case(f"LeakyReLU {kind}", [x], act_type=kind)
        case(f"LeakyReLU {kind} other", [x], act_type=kind, slope=0.1)
    case("LeakyReLU prelu", [noise(2, 3, 4, 2), W(noise(3))], act_type="prelu")
    case("LeakyReLU prelu one", [noise(2, 3, 4, 2), W(noise(1))], act_type="prelu")
    case("LeakyReLU prelu matrix", [noise(2, 3), W(noise(3, seed=1))], act_type="prelu")
    for kind in ("softmax", "softmin", "log_softmax"):
        case(kind, [x])
        case(f"{kind} axis", [x], axis=1, temperature=0.7)
    case("SoftmaxActivation", [noise(2, 4)])
    case("SoftmaxActivation channel", [noise(2, 3, 4, 2)], mode="channel")
    for title, how in (
        ("samples", {}),
        ("channels", {"multi_output": True}),
        ("last axis", {"preserve_shape": True}),
    ):
        symbol = mx.sym.SoftmaxOutput(mx.sym.Variable("x"), name="softmax", grad_scale=2, ignore_label=1, **how)
        network(f"SoftmaxOutput {title}", symbol, {"x": x})
    for kind in ("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput"):
        network(kind, getattr(mx.sym, kind)(mx.sym.Variable("x"), name="loss", grad_scale=2), {"x": x})
    network("SVMOutput", mx.sym.SVMOutput(mx.sym.Variable("x"), name="loss"), {"x": noise(3, 4)})
    for kind in ("BlockGrad", "_copy", "make_loss", "Dropout"):
        case(kind, [x])
    case("MakeLoss", [x], grad_scale=2.0, normalization="batch")
    for dtype in ("float64", "float16", "int32", "uint8", "int8", "int64", "bool"):
        case(f"Cast {dtype}", [np.abs(x)], dtype=dtype)
    case("Cast float32", [np.arange(6, dtype=np.int32)], dtype="float32")
    case("amp_cast", [x], dtype="float16")


def elements():
    a, b = noise(2, 3, 4), noise(2, 3, 4, seed=1)
    a[0, 0] = b[0, 0]
    a[0, 1, :2] = 0
    b[0, 1, 1:3] = 0
    whole = np.array([-7, 6, 5, 0, 8, 3], np.int32), np.array([2, -4, 3, 2, 3, 3], np.int32)
    for names in SAME_SHAPES.split():
        left, right = (np.abs(a) + F(0.1), np.abs(b) + F(0.1)) if names in ("_power", "elemwise_div") else (a, b)
        case(names, [left, right])
        if names not in ("_hypot", "_power"):
            case(f"{names} int32", [*whole])
    for name in OF_TWO.split():
        left, right = noise(2, 1, 4), np.abs(noise(3, 1, seed=1)) + F(0.1)
        left[0, 0, :2] = right[:2, 0]
        if name == "power":
            left = np.abs(left)
        case(f"broadcast_{name}", [left, right[None]])
        kind = {"add": "_plus", "sub": "_minus"}.get(name, f"_{name}") + "_scalar"
        case(kind, [left], scalar=float(left[0, 0, 0]))
        if name not in ("hypot", "power", "div"):
            case(f"{kind} int32", [whole[0]], scalar=3)
        case(
            f"{kind} zero",
            [np.abs(left) if name in ("power", "div") else left],
            scalar=0.5 if name == "div" else 0,
        )
    for kind in ("_rminus_scalar", "_rdiv_scalar", "_rpower_scalar", "_rmod_scalar"):
        case(kind, [np.abs(a) + F(0.1)], scalar=2.5)
    case("add_n", [a, b, noise(2, 3, 4, seed=2)])
    x = noise(2, 3, 4, scale=2)
    for kind in OF_ONE.split():
        case(kind, [x])
    halves = np.arange(-3, 3.5, 0.5).astype(F)
    for kind in ("round", "rint", "fix", "sign", "logical_not"):
        case(f"{kind} halves", [halves])
    for kind in ("reciprocal", "sqrt", "rsqrt", "log", "log2", "log1p"):
        case(kind, [np.abs(x) + F(0.1)])
    for kind in ("arcsin", "arccos"):
        case(kind, [np.tanh(x)])
    case("smooth_l1", [x], scalar=1.0)
    case("smooth_l1 other", [x], scalar=3.0)
    case("clip", [x], a_min=-0.5, a_max=1.5)


def reductions():
    x = noise(2, 3, 4)
    for kind in ("sum", "mean", "prod", "max", "min"):
        case(kind, [x])
        for title, how in (
            ("axis", {"axis": 1}), ("axes", {"axis": (0, 2), "keepdims": True}), ("negative", {"axis": -1}),
            ("exclude", {"axis": 1, "exclude": True}), ("all keepdims", {"keepdims": True}),
            ("none", {"axis": ()}), ("every axis", {"axis": (0, 1, 2)}),
        ):  # fmt: skip
            case(f"{kind} {title}", [x], **how)
    case("sum int32", [np.arange(6, dtype=np.int32).reshape(2, 3)], axis=0)
    for order in (1, 2):
        case(f"norm {order}", [x], ord=order)
        case(f"norm {order} axis", [x], ord=order, axis=1, keepdims=True)
    ties = np.array([[1, 3, 3, 0], [2, 2, 1, 2]], F)
    for kind in ("argmax", "argmin"):
        case(kind, [x])
        case(f"{kind} ties", [ties], axis=1)
        case(f"{kind} keepdims", [x], axis=-1, keepdims=True)
        case(f"{kind} vector", [noise(5)], axis=0)
    case("argmax_channel", [noise(3, 4)])
    for kind in ("indices", "value", "mask", "both"):
        case(f"topk {kind}", [x], k=2, ret_typ=kind)
        case(f"topk {kind} ascending", [x], k=2, ret_typ=kind, axis=1, is_ascend=True)
    case("topk all", [x], k=0, ret_typ="value")
    case("topk flat", [x], k=3, axis=None, ret_typ="both", dtype="int32")
    for kind in ("sort", "argsort"):
        case(kind, [x])
        case(f"{kind} descending", [x], axis=0, is_ascend=False)
        case(f"{kind} flat", [x], axis=None)


def shapes():
    x, y = noise(2, 3, 4), noise(2, 3, 4, 5)
    case("Flatten", [x])
    case("Concat", [x, noise(2, 1, 4), noise(2, 2, 4)])
    case("Concat last axis", [x, noise(2, 3, 1)], dim=-1)
    for i, shape in enumerate(((6, 4), (0, -1), (4, 0, -1), (-2,), (0, -3), (-3, 4), (-1, 2, 3), (0, 0, 0, 1),
                               (-4, 1, 2, -2), (-4, 2, -1, -2), (0, -4, -1, 3, -2), (-3, -2), (24,))):  # fmt: skip
        case(f"Reshape {i}", [x], shape=shape)
    for i, shape in enumerate(((-1, 0), (0, -1), (-3, 0), (0, 2, -1), (-2,), (-1, 2, 2))):
        case(f"Reshape reverse {i}", [x], shape=shape, reverse=True)
    case("Reshape target", [x], target_shape=(2, 0))
    case("Reshape target highest", [x], target_shape=(0, 0), keep_highest=True)
    case("reshape_like", [x, noise(6, 4)])
    case("transpose", [y])
    case("transpose axes", [y], axes=(0, 2, 3, 1))
    case("SwapAxis", [y], dim1=1, dim2=3)
    case("expand_dims", [x], axis=1)
    case("expand_dims last", [x], axis=-1)
    for title, how in (("all", {}), ("one", {"axis": 1}), ("two", {"axis": (1, -1)})):
        case(f"squeeze {title}", [noise(2, 1, 3, 1)], **how)
    for title, how in (
        ("plain", {"begin": (0, 1, 1), "end": (2, 3, 3)}), ("short", {"begin": (1,), "end": (2,)}),
        ("none", {"begin": (None, 1), "end": (None, None)}), ("negative", {"begin": (0, -2), "end": (2, -1)}),
        ("step", {"begin": (0, 2, 0), "end": (2, None, 4), "step": (1, -1, 3)}),
    ):  # fmt: skip
        case(f"slice {title}", [x], **how)
    for title, how in (("plain", (1, 0, 2)), ("none", (-1, 1, None)), ("negative", (2, -3, -1))):
        case(f"slice_axis {title}", [x], axis=how[0], begin=how[1], end=how[2])
    case("slice_like", [x, noise(1, 2, 3)])
    case("slice_like axes", [x, noise(1, 2, 3)], axes=(0, -1))
    case("SliceChannel", [noise(2, 6, 4)], num_outputs=3)
    case("SliceChannel squeeze", [x], num_outputs=4, axis=-1, squeeze_axis=True)
    case("stack", [x, x + 1, x + 2], axis=1, num_args=3)
    case("tile", [x], reps=(2, 1, 3))
    case("tile more", [x], reps=(2, 1, 1, 2))
    case("tile less", [x], reps=(3,))
    case("repeat", [x], repeats=2, axis=1)
    case("repeat flat", [x], repeats=3)
    case("reverse", [x], axis=1)
    case("reverse axes", [x], axis=(0, 2))
    case("broadcast_to", [noise(1, 3, 1)], shape=(2, 0, 4))
    case("broadcast_axis", [noise(1, 3, 1)], axis=(0, 2), size=(2, 4))
    case("broadcast_axis one", [noise(1, 3, 1)], axis=2, size=4)
    case("broadcast_like", [noise(1, 3, 1), x])
    case("zeros_like", [x])
    case("ones_like", [x])
    case("ones_like dtype", [x], dtype="int64")
    case("_contrib_arange_like", [x])
    case("_contrib_arange_like axis", [x], axis=1, start=2.0, step=0.5)
    a = mx.sym.Variable("x")
    sources = {
        "_zeros": mx.sym.zeros((2, 3)), "_ones": mx.sym.ones((2, 3)),
    }  # fmt: skip
    for title, source in sources.items():
        network(title, mx.sym.broadcast_add(a, source), {"x": noise(2, 3)})
    for title, dtype, how in (
        ("stop", "float32", {"start": 5}),
        ("limits", "float32", {"start": 2, "stop": 7.5}),
        ("fractions", "float32", {"start": 0, "stop": 1, "step": 0.1}),
        ("back", "float32", {"start": 3, "stop": -2, "step": -1.5}),
        ("repeat", "float32", {"start": 1, "stop": 4, "repeat": 3}),
        ("int32", "int32", {"start": 1, "stop": 9, "step": 3}),
        ("float64", "float64", {"start": 0.1, "stop": 3, "step": 0.7}),
    ):
        source = mx.sym.arange(dtype=dtype, **how)
        zero = mx.sym.Variable("x", dtype=dtype)
        network(f"_arange {title}", mx.sym.broadcast_add(zero, source), {"x": np.zeros(1, dtype)})
    case("shape_array", [x])
    case("size_array", [x])


def selection():
    x = noise(3, 4, 2)
    indices = np.array([[0, 2], [1, 1]], F)
    case("take", [x, indices])
    case("take int", [x, indices.astype(np.int32)])
    case("take clip", [x, np.array([-1, 5, 2], F)], axis=1)
    case("take wrap", [x, np.array([-1, 5, 2], F)], axis=1, mode="wrap")
    case("Embedding", [np.array([[0, 4], [2, 9]], F), W(noise(5, 3))], input_dim=5, output_dim=3)
    case("pick", [noise(3, 4), np.array([0, 3, 2], F)])
    case("pick axis", [noise(3, 4), np.array([0, 1, 2, 5], F)], axis=0, keepdims=True)
    case("pick wrap", [noise(3, 4), np.array([0, -1, 6], F)], mode="wrap")
    case("gather_nd", [x, np.array([[0, 1, 2], [3, 0, 1]], F)])
    case("gather_nd full", [x, np.array([[[0, 1]], [[3, 0]], [[1, 1]]], np.int32)])
    case("one_hot", [np.array([1, 0, 3, -1, 4], F)], depth=4)
    case("one_hot values", [np.array([[1, 0], [2, 1]], F)], depth=3, on_value=2, off_value=-1, dtype="int32")
    case("where", [(noise(3, 4) > 0).astype(F), noise(3, 4, seed=1), noise(3, 4, seed=2)])
    case("where rows", [np.array([1, 0, 2], F), noise(3, 4, seed=1), noise(3, 4, seed=2)])


def recurrent():
    for mode, gates in (("rnn_relu", 1), ("rnn_tanh", 1), ("lstm", 4), ("gru", 3)):
        for title, layers, both, outputs in (("one", 1, False, False), ("two", 2, True, True)):
            size, width, directions = 4, 3, 1 + both
            count = sum(
                directions * gates * size * (w + size + 2) for w in [width, *[directions * size] * (layers - 1)]
            )
            states = [noise(layers * directions, 2, size, seed=i) for i in range(1 + (mode == "lstm"))]
            case(f"RNN {mode} {title}", [noise(5, 2, width), W(noise(count, scale=0.5)), *states], mode=mode,
                 state_size=size, num_layers=layers, bidirectional=both, state_outputs=outputs, p=0.5)  # fmt: skip


def unit(x, filters, name, kernel=(1, 1), stride=(1, 1), groups=1, fix_gamma=False):
    """Return a convolution with normalization and a ReLU."""
    pad = tuple(k // 2 for k in kernel)
    y = mx.sym.Convolution(x, kernel=kernel, stride=stride, pad=pad, num_filter=filters, num_group=groups,
                           no_bias=True, workspace=256, name=f"{name}_conv")  # fmt: skip
    y = mx.sym.BatchNorm(y, fix_gamma=fix_gamma, eps=2e-5, momentum=0.9, name=f"{name}_bn")
    return mx.sym.Activation(y, act_type="relu", name=f"{name}_relu")


def classified(x, classes=5):
    y = mx.sym.Pooling(x, global_pool=True, kernel=(7, 7), pool_type="avg", name="pool")
    y = mx.sym.FullyConnected(mx.sym.Flatten(y), num_hidden=classes, name="fc")
    return mx.sym.SoftmaxOutput(y, name="softmax")


def further():
    x, lengths = noise(4, 3, 2), np.array([2, 4, 1], F)
    for kind in ("SequenceMask", "SequenceLast", "SequenceReverse"):
        case(f"{kind} whole", [x])
        case(kind, [x, lengths], use_sequence_length=True)
    case("SequenceMask value", [x, lengths], use_sequence_length=True, value=-1e6)
    batch = np.array([1, 3, 0, 2], F)
    case("SequenceMask axis", [x, batch], use_sequence_length=True, axis=1)
    case("SequenceLast axis", [x, np.array([1, 3, 1, 2], F)], use_sequence_length=True, axis=1)
    for kind in ("max", "avg", "sum"):
        for title, how in (
            ("valid", {"kernel": (3, 2), "stride": (2, 2)}),
            ("full", {"kernel": (3, 2), "stride": (2, 3), "pooling_convention": "full"}),
            ("padded", {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
            ("full padded", {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pooling_convention": "full"}),
            ("global", {"global_pool": True, "kernel": (2, 2)}),
        ):
            case(f"Pooling_v1 {kind} {title}", [noise(2, 4, 7, 6)], pool_type=kind, **how)
    case("Pooling channels last", [noise(2, 7, 6, 4)], kernel=(3, 2), stride=(2, 2), pad=(1, 0), layout="NHWC")
    case("Pooling global channels last", [noise(2, 7, 6, 4)], global_pool=True, pool_type="avg", layout="NHWC")
    case("_split_v2 sections", [noise(2, 6)], indices=(), sections=3, axis=1)
    case("_split_v2 indices", [noise(2, 7)], indices=(0, 2, 5), axis=1)
    for kind in ("log10", "arcsinh", "degrees", "radians", "rcbrt"):
        case(kind, [np.abs(noise(2, 3)) + F(0.1)])
    case("arccosh", [np.abs(noise(2, 3)) + F(1.5)])
    case("arctanh", [noise(2, 3) / F(4)])
    for kind in ("_contrib_round_ste", "_contrib_sign_ste", "_contrib_gradientmultiplier"):
        case(kind, [noise(2, 3)])
    case("_contrib_quadratic", [noise(2, 3)], a=2.0, b=-1.0, c=0.5)
    case("_scatter_elemwise_div", [noise(2, 3), noise(2, 3, seed=1)])
    case("_identity_with_attr_like_rhs", [noise(2, 3), noise(2, 3, seed=1)])
    case("_eye", [], N=3, M=4, k=1)
    case("_eye square", [], N=3)
    case("_full", [], shape=(2, 3), value=2.5)
    case("_linspace", [], start=0, stop=1, num=5)
    case("diag", [noise(3, 4)], k=1)
    case("diag vector", [noise(3)])
    case("diag ranks", [noise(2, 3, 4)], axis1=1, axis2=2)
    case("batch_take", [noise(3, 4), np.array([3, 0, 9], np.int32)])
    case("moments", [noise(2, 3, 4)], axes=(0, 2))
    case("moments keepdims", [noise(2, 3, 4)], axes=(1,), keepdims=True)
    case("nansum", [np.where(noise(2, 3) > 0.5, F(np.nan), noise(2, 3, seed=1))], axis=1)
    case("nanprod", [np.where(noise(2, 3) > 0.5, F(np.nan), noise(2, 3, seed=1))], axis=1)
    case("_contrib_index_array", [noise(2, 3)])
    case("_contrib_index_array axes", [noise(2, 3, 2)], axes=(2, 0))
    queries, both = noise(4, 2, 12), noise(5, 2, 24, seed=1)
    case("_contrib_interleaved_matmul_encdec_qk", [queries, both], heads=3)
    case("_contrib_interleaved_matmul_encdec_valatt", [both, noise(6, 4, 5, seed=2)], heads=3)
    a, b, c = noise(2, 3, 4), noise(2, 4, 5, seed=1), noise(2, 3, 5, seed=2)
    case("_linalg_gemm", [a, b, c], alpha=0.5, beta=2.0)
    case("_linalg_gemm transposed", [a.swapaxes(1, 2).copy(), b, c], transpose_a=True)
    case("_linalg_syrk", [a], alpha=0.5)
    case("_linalg_syrk transposed", [a], transpose=True)
    case("broadcast_like axes", [noise(1, 3, 1), noise(4, 2, 5)], lhs_axes=(0, 2), rhs_axes=(0, 2))
    case("scatter_nd", [noise(3), np.array([[1, 0, 2], [0, 3, 1]], F)], shape=(3, 4))
    case("_slice_assign", [noise(3, 4), noise(2, 2, seed=1)], begin=(0, 1), end=(2, 3))
    case("_slice_assign_scalar", [noise(3, 4)], scalar=2.5, begin=(None, 1), end=(None, 4), step=(None, 2))
    case("_image_to_tensor", [np.arange(24, dtype=np.uint8).reshape(2, 4, 3)])
    case("_image_to_tensor batch", [np.arange(48, dtype=np.uint8).reshape(2, 2, 4, 3)])
    case("_image_normalize", [noise(3, 4, 5)], mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    case("_image_normalize batch", [noise(2, 3, 4, 5)], mean=(0.4,), std=(0.2,))
    case("_image_crop", [noise(5, 6, 3)], x=1, y=2, width=3, height=2)
    case("_image_flip_left_right", [noise(5, 4, 3)])  # of odd widths MXNet leaves one column undefined
    case("_image_flip_top_bottom", [noise(4, 5, 3)])
    case("_contrib_BatchNormWithReLU", [noise(2, 3, 4, 4), W(noise(3, seed=1)), W(noise(3, seed=2))],
         [noise(3, seed=3), noise(3, seed=4) ** 2 + F(0.1)], fix_gamma=False)  # fmt: skip
    case("IdentityAttachKLSparseReg", [noise(2, 3)], [noise(3)])


def channels_last():
    """Add convolutions of channels-last maps. The CPU computes them between transpositions only."""
    for name, shape, how in (
        ("Convolution", (6, 4, 3, 2), {"stride": (2, 1), "pad": (1, 0), "num_filter": 6}),
        ("Convolution", (6, 2, 3, 3), {"num_group": 2, "num_filter": 6, "no_bias": True}),
        ("Convolution", (3, 4, 2, 3, 2), {"num_filter": 3}),
        ("Deconvolution", (4, 3, 3, 2), {"stride": (2, 1), "pad": (1, 0), "num_filter": 3, "no_bias": False}),
    ):
        axes = len(shape) - 2
        last, first = (0, *range(2, axes + 2), 1), (0, axes + 1, *range(1, axes + 1))
        layout = {2: "NHWC", 3: "NDHWC"}[axes]
        x, w = noise(2, 4, *(7, 6, 5)[:axes]), noise(*shape, seed=1)
        bias = {} if how.get("no_bias") else {"in2": noise(how["num_filter"], seed=2)}
        variables = [mx.sym.Variable(f"in{i}") for i in range(2 + len(bias))]
        operator = getattr(mx.sym, name)
        names = [mx.sym.transpose(v, axes=first) for v in variables[:2]] + variables[2:]
        expected = mx.sym.transpose(operator(*names, kernel=shape[2:], **how), axes=last)
        symbol = operator(*variables, kernel=shape[2:], layout=layout, name="op", **how)
        weights = {"in1": w.transpose(last), **bias}
        network(f"{name} {layout} {len(shape)}{' groups' if 'num_group' in how else ''}", expected,
                {"in0": x.transpose(last)}, weights)  # fmt: skip
        CASES[-1]["symbol"] = symbol.tojson().encode()


def control():
    """Add loops and branches, with the subgraphs that MXNet writes for functions of symbols."""
    x, y, s, w, i, c = (mx.sym.Variable(n) for n in ("x", "y", "s", "w_weight", "i", "c"))

    def cell(x, states):
        h = mx.sym.tanh(mx.sym.FullyConnected(x, weight=w, num_hidden=3, no_bias=True) + states[0])
        return h * 2, [h]

    def sums(xs, states):
        total = states[0] + xs[0] * xs[1]
        return [total, xs[1] - c], [total, states[1] * 0.5]

    weights, state = {"w_weight": noise(3, 4, seed=1)}, noise(2, 3, seed=2)
    outputs, states = mx.sym.contrib.foreach(cell, x, [s])
    for title, steps in (("cell", 3), ("many steps", 60)):
        network(
            f"_foreach {title}", mx.sym.Group([outputs, *states]), {"x": noise(steps, 2, 4), "s": state}, weights
        )
    outputs, states = mx.sym.contrib.foreach(sums, [x, y], [s, i])
    given = {"x": noise(4, 2, 3), "y": noise(4, 2, 3, seed=1), "s": state, "i": noise(2, 3, seed=5), "c": state}
    network("_foreach two", mx.sym.Group([*outputs, *states]), given)
    outputs, _ = mx.sym.contrib.foreach(lambda a, _: (mx.sym.square(a), []), x, [])
    network("_foreach no state", outputs, {"x": noise(3, 2)})

    def nested(row, states):
        inner, last = mx.sym.contrib.foreach(lambda a, t: (a + t[0], [t[0] + a]), row, states)
        return inner, last

    outputs, states = mx.sym.contrib.foreach(nested, x, [s])
    network("_foreach nested", mx.sym.Group([outputs, *states]), {"x": noise(3, 2, 4), "s": noise(4, seed=1)})
    for title, limit, most in (("first", 5, 8), ("all", 9, 4), ("second", 2, 3)):
        outputs, variables = mx.sym.contrib.while_loop(
            lambda i, x, limit=limit: i < limit,
            lambda i, x: ([x * x + s], [i + 1, x * 1.5]),
            [i, x],
            max_iterations=most,
        )
        given = {"i": np.zeros(1, F), "x": noise(2, 3), "s": state}
        network(f"_while_loop {title}", mx.sym.Group([*variables]), given)
        if limit > most:
            network(f"_while_loop {title} rows", mx.sym.Group([*outputs, *variables]), given)
    outputs, variables = mx.sym.contrib.while_loop(
        lambda x, y: mx.sym.sum(x) < 20, lambda x, y: ([], [x + y, y * 1.25]), [x, y], max_iterations=50
    )
    network("_while_loop data", mx.sym.Group(variables), {"x": noise(2, 3), "y": np.abs(noise(2, 3, seed=1))})
    chosen = mx.sym.contrib.cond(mx.sym.sum(c) > 0, lambda: x * 2 + y, lambda: mx.sym.relu(y) - x)
    for title, value in (("then", 1), ("else", -1)):
        given = {"x": noise(2, 3), "y": noise(2, 3, seed=1), "c": np.array([value, 0], F)}
        network(f"_cond {title}", chosen, given)


def networks():
    x = mx.sym.Variable("data", shape=(0, 1, 12, 12))
    y = mx.sym.Convolution(x, kernel=(5, 5), num_filter=6, name="conv1")
    y = mx.sym.Activation(y, act_type="tanh", name="tanh1")
    y = mx.sym.Pooling(y, pool_type="max", kernel=(2, 2), stride=(2, 2), name="pool1")
    y = mx.sym.Convolution(y, kernel=(3, 3), pad=(1, 1), num_filter=6, name="conv2") + y
    y = mx.sym.FullyConnected(mx.sym.Flatten(y), num_hidden=10, name="fc")
    y = mx.sym.SoftmaxOutput(y, name="softmax")
    trained("lenet", y, {"data": noise(2, 1, 12, 12)})

    x, image = mx.sym.Variable("data"), noise(2, 3, 16, 16)
    y = mx.sym.BatchNorm(x, fix_gamma=True, eps=2e-5, name="bn_data")
    y = unit(y, 8, "stem", (7, 7), (2, 2))
    y = mx.sym.Pooling(y, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", name="pool0")
    y = unit(unit(y, 8, "a1", (3, 3)), 8, "a2", (3, 3)) + y
    y = mx.sym.Activation(y + unit(y, 8, "b", (1, 1)), act_type="relu", name="join")
    trained("resnet", classified(y), {"data": image})

    y = unit(x, 8, "conv", (3, 3), (2, 2))
    for i, filters in enumerate((8, 16)):
        y = unit(y, 8, f"dw{i}", (3, 3), (1 + i, 1 + i), groups=8)
        y = unit(y, 8 if i == 0 else filters, f"pw{i}")
    trained("mobilenet", classified(y), {"data": image})

    y = unit(x, 8, "stem", (3, 3), (2, 2), fix_gamma=True)
    parts = [unit(y, 4, "a"), unit(unit(y, 3, "b1"), 4, "b3", (3, 3))]
    parts.append(unit(unit(unit(y, 3, "c1"), 4, "c2", (3, 3)), 4, "c3", (3, 3)))
    parts.append(mx.sym.Pooling(y, kernel=(3, 3), stride=(1, 1), pad=(1, 1), pool_type="avg"))
    y = mx.sym.Concat(*parts, name="concat")
    y = mx.sym.Dropout(mx.sym.LRN(y, nsize=5), p=0.3)
    y = mx.sym.Pooling(y, kernel=(3, 3), stride=(2, 2), pool_type="max", pooling_convention="full")
    trained("inception", classified(y), {"data": image})

    y = unit(unit(x, 8, "down", (3, 3), (2, 2)), 8, "middle", (3, 3))
    y = mx.sym.Deconvolution(y, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=4, name="up")
    y = mx.sym.Concat(y, mx.sym.UpSampling(y, scale=1, sample_type="nearest", num_args=1), name="concat")
    y = mx.sym.Convolution(y, kernel=(1, 1), num_filter=3, name="score")
    trained("segmentation", mx.sym.SoftmaxOutput(y, multi_output=True, name="softmax"), {"data": image})
    gluon(image)
    old_versions()


def gluon(image):
    """Add a network and a recurrent one as Gluon exports them."""
    from mxnet.gluon import nn, rnn

    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(8, 3, 2, 1, use_bias=False), nn.BatchNorm(), nn.PReLU(), nn.Conv2D(8, 3, 1, 1, groups=8))
        net.add(
            nn.LayerNorm(axis=1), nn.Swish(), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(6, activation="tanh")
        )
        net.add(nn.Dropout(0.5), nn.Dense(4))
    exported("gluon", net, image)
    hybrid = nn.HybridSequential(prefix="hybrid_")
    with hybrid.name_scope():  # its states are zeros of a batch size that MXNet infers
        hybrid.add(rnn.GRU(6, bidirectional=True), nn.Dense(3, flatten=False))
    exported("gluon hybrid", hybrid, noise(4, 2, 3))
    exported("gluon recurrent", rnn.LSTM(5, num_layers=2, bidirectional=True, prefix="lstm_"), noise(4, 2, 3))


def exported(name, net, x):
    """Add a network as HybridBlock.export writes it."""
    mx.random.seed(2)
    net.initialize(mx.init.Xavier(rnd_type="gaussian"))
    net.hybridize()
    data = mx.nd.array(x)
    if "recurrent" in name:
        states = net.begin_state(batch_size=x.shape[1])
        expected = [net(data, states)[0]]
    else:
        expected = [net(data)]
    with tempfile.TemporaryDirectory() as folder:
        net.export(f"{folder}/net")
        symbol, params = (Path(f"{folder}/net-{part}").read_bytes() for part in ("symbol.json", "0000.params"))
    inputs = {n: x for n in mx.sym.load_json(symbol.decode()).list_inputs() if n in ("data", "data0")}
    if "recurrent" in name:
        inputs.update({f"data{i + 1}": s.asnumpy() for i, s in enumerate(states)})
        expected += net(data, states)[1]
    outputs = {str(i): y.asnumpy() for i, y in enumerate(expected)}
    CASES.append({"name": name, "symbol": symbol, "params": params, "inputs": inputs, "outputs": outputs})


def old_versions():
    """Add one network in the JSON of MXNet 0.8 and 0.9, and its arrays in the versions 0 and 1 of their format."""
    weights = {"conv_weight": noise(4, 2, 3, 3), "conv_bias": noise(4), "bn_gamma": noise(4), "bn_beta": noise(4)}
    states = {"bn_moving_mean": noise(4, seed=3), "bn_moving_var": noise(4, seed=4) ** 2 + F(0.1)}
    convolution = {"kernel": "(3L, 3L)", "num_filter": "4", "pad": "(1L, 1L)", "workspace": "512"}
    steps = [
        ("null", "data", {}, []), ("null", "conv_weight", {}, []), ("null", "conv_bias", {}, []),
        ("Convolution", "conv", convolution, [0, 1, 2]), ("null", "bn_gamma", {}, []), ("null", "bn_beta", {}, []),
        ("BatchNorm", "bn", {"eps": "0.001", "fix_gamma": "False", "momentum": "0.9"}, [3, 4, 5]),
        ("argmax", "best", {"axis": "-1"}, [6]),
        ("Reshape", "flat", {"target_shape": "(0, 72)"}, [6]),
        ("null", "softmax_label", {}, []), ("SoftmaxOutput", "softmax", {"grad_scale": "1"}, [8, 9]),
    ]  # fmt: skip
    x = {"data": noise(2, 2, 6, 3)}
    for version in (None, 900, 1000):
        aux = version is not None
        nodes, places = [], {}
        for i, (op, name, attributes, inputs) in enumerate(steps):
            if op == "BatchNorm" and aux:
                nodes += [{"op": "null", "name": n, "inputs": []} for n in states]
            places[i] = len(nodes)
            entries = [[places[j], 0, 0] if aux else [places[j], 0] for j in inputs]
            if op == "BatchNorm" and aux:
                entries += [[places[i] - 2, 0, 0], [places[i] - 1, 0, 0]]
            node = {"op": op, "name": name, "inputs": entries}
            if version is None:
                node.update(param=attributes, attr={"ctx_group": "dev1", "lr_mult": "2"}, backward_source_id=-1)
            else:
                node["attr" if version < 1000 else "attrs"] = attributes
            nodes.append(node)
        heads = [[places[i], 0, 0] if aux else [places[i], 0] for i in (10, 7)]
        whole = {
            "nodes": nodes,
            "arg_nodes": [i for i, n in enumerate(nodes) if n["op"] == "null"],
            "heads": heads,
        }
        if version is not None:
            whole["attrs"] = {"mxnet_version": ["int", version]}
        network(f"version {version or 800}", None, x, weights, states, json.dumps(whole, indent=2, sort_keys=True))
    last = CASES[-1]
    arrays = {**{f"arg:{n}": a for n, a in weights.items()}, **{f"aux:{n}": a for n, a in states.items()}}
    for version in (0, 1, 3):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file.params"
            path.write_bytes(old_params(arrays, version))
            with mx.util.np_shape(version == 3):
                loaded = mx.nd.load(str(path))
            assert all((loaded[n].asnumpy() == a).all() for n, a in arrays.items())
            CASES.append({**last, "name": f"params {version}", "params": path.read_bytes()})


def old_params(arrays, version):
    """Return a .params file with arrays in a version of their format."""
    parts = [struct.pack("<QQQ", 0x112, 0, len(arrays))]
    for a in arrays.values():
        sizes = struct.pack(f"<{a.ndim}{'q' if version else 'I'}", *a.shape)
        head = {0: b"", 1: struct.pack("<I", 0xF993FAC8), 3: struct.pack("<Ii", 0xF993FACA, 0)}[version]
        parts.append(head + struct.pack("<i", a.ndim) + sizes + struct.pack("<iii", 1, 0, 0) + a.tobytes())
    parts.append(struct.pack("<Q", len(arrays)))
    parts += [struct.pack("<Q", len(n)) + n.encode() for n in arrays]
    return b"".join(parts)


def trained(name, symbol, inputs):
    """Add a network with the weights of MXNet's initializer, in the form of a Module."""
    labels = [n for n in symbol.list_arguments() if "label" in n]
    module = mx.mod.Module(symbol, data_names=[*inputs], label_names=labels)
    shapes = dict(zip(symbol.list_arguments(), symbol.infer_shape(**{n: a.shape for n, a in inputs.items()})[0]))
    module.bind([(n, a.shape) for n, a in inputs.items()], [(n, shapes[n]) for n in labels], for_training=False)
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    weights, states = module.get_params()
    states = {n: noise(*v.shape, seed=len(n)) ** 2 + F(0.1) for n, v in states.items()}
    network(name, symbol, inputs, {n: v.asnumpy() for n, v in weights.items()}, states)


if __name__ == "__main__":
    for make in (
        windows, transposed, resizing, normalization, matrices, activations, elements, reductions, shapes,
        selection, recurrent, further, channels_last, control, networks,
    ):  # fmt: skip
        make()
    save(Path(__file__).with_name("operators.npz"))
