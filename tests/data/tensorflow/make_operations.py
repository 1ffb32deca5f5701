# ruff: noqa: E501, E731
"""Make operations.npz: TensorFlow's own results, for one small graph per operation and setting.

    python make_operations.py        (needs tensorflow-cpu; the file in this folder was made with 2.21)

The file holds `index` and `data`. `index` is JSON: the name of each case, and the dtype, shape and offset of its
GraphDef, inputs and outputs. `data` has the bytes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

raw = tf.raw_ops
F = np.float32
CASES: dict[str, tuple] = {}


def noise(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(F)


def some(low, high, *shape, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(F)


def ints(low, high, *shape, seed=0, dtype=np.int32):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def case(name, function, *inputs):
    assert name not in CASES, name
    CASES[name] = (function, inputs)


def i32(*values):
    return np.array(values, np.int32)


X = noise(2, 7, 6, 4)
N = X.transpose(0, 3, 1, 2).copy()

for padding in ("SAME", "VALID"):
    for s, k, d in ((1, 3, 1), (2, 3, 1), (3, 2, 1), (1, 2, 2)):
        w = noise(k, k + 1, 4, 3, seed=1)
        case(
            f"Conv2D {padding} stride {s} kernel {k} dilation {d}",
            lambda x, w=w, s=s, d=d, p=padding: raw.Conv2D(
                input=x, filter=w, strides=[1, s, s, 1], padding=p, dilations=[1, d, d, 1]
            ),
            X,
        )
    for s, m in ((1, 1), (2, 2)):
        w = noise(3, 2, 4, m, seed=2)
        case(
            f"DepthwiseConv2dNative {padding} stride {s} times {m}",
            lambda x, w=w, s=s, p=padding: raw.DepthwiseConv2dNative(
                input=x, filter=w, strides=[1, s, s, 1], padding=p
            ),
            X,
        )
    for s, k, height, width in ((2, 3, 13, 12), (2, 3, 14, 11), (1, 3, 7, 6), (3, 2, 21, 18)):
        sizes = (height, width)
        if padding == "VALID":
            sizes = tuple((n - 1) * s + k + (1 if s > 2 else 0) for n in (7, 6))
        w = noise(k, k, 3, 4, seed=3)
        case(
            f"Conv2DBackpropInput {padding} stride {s} kernel {k} to {sizes[0]} x {sizes[1]}",
            lambda y, w=w, s=s, p=padding, z=sizes: raw.Conv2DBackpropInput(
                input_sizes=[2, *z, 3], filter=w, out_backprop=y, strides=[1, s, s, 1], padding=p
            ),
            X,
        ) if f"Conv2DBackpropInput {padding} stride {s} kernel {k} to {sizes[0]} x {sizes[1]}" not in CASES else None
    for name in ("MaxPool", "AvgPool"):
        for s, k in ((1, 2), (2, 3), (3, 2)):
            op = getattr(raw, name)
            arg = "input" if name == "MaxPool" else "value"
            case(
                f"{name} {padding} stride {s} kernel {k}",
                lambda x, op=op, s=s, k=k, p=padding, a=arg: op(
                    **{a: x}, ksize=[1, k, k, 1], strides=[1, s, s, 1], padding=p
                ),
                X,
            )
        case(
            f"{name}3D {padding}",
            lambda x, n=name, p=padding: getattr(raw, n + "3D")(
                input=x, ksize=[1, 2, 3, 2, 1], strides=[1, 2, 1, 2, 1], padding=p
            ),
            noise(1, 4, 5, 6, 2),
        )
    case(
        f"Conv3D {padding}",
        lambda x, p=padding: raw.Conv3D(
            input=x, filter=noise(2, 3, 2, 2, 3, seed=1), strides=[1, 1, 2, 1, 1], padding=p
        ),
        noise(1, 4, 5, 6, 2),
    )
    case(
        f"Dilation2D {padding}",
        lambda x, p=padding: raw.Dilation2D(
            input=x, filter=noise(2, 3, 4, seed=1), strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding=p
        ),
        X,
    )
    case(
        f"ExtractImagePatches {padding}",
        lambda x, p=padding: raw.ExtractImagePatches(
            images=x, ksizes=[1, 3, 2, 1], strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding=p
        ),
        X,
    )
    case(
        f"MaxPoolWithArgmax {padding}",
        lambda x, p=padding: raw.MaxPoolWithArgmax(
            input=x, ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1], padding=p, include_batch_in_index=p == "SAME"
        ),
        X,
    )
case(
    "Conv2D EXPLICIT",
    lambda x: raw.Conv2D(
        input=x,
        filter=noise(3, 3, 4, 3, seed=1),
        strides=[1, 2, 1, 1],
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0],
    ),
    X,
)
case(
    "MaxPool EXPLICIT",
    lambda x: raw.MaxPool(
        input=x,
        ksize=[1, 3, 3, 1],
        strides=[1, 2, 2, 1],
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0],
    ),
    X,
)
case(
    "Conv2D in groups",
    lambda x: raw.Conv2D(input=x, filter=noise(3, 3, 2, 6, seed=1), strides=[1, 1, 1, 1], padding="SAME"),
    X,
)
case(
    "DepthwiseConv2dNative dilation 2",
    lambda x: raw.DepthwiseConv2dNative(
        input=x, filter=noise(3, 2, 4, 2, seed=2), strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 2, 1]
    ),
    X,
)
case(
    "Conv3DBackpropInputV2",
    lambda y: raw.Conv3DBackpropInputV2(
        input_sizes=[1, 8, 5, 12, 3],
        filter=noise(3, 3, 2, 3, 2, seed=1),
        out_backprop=y,
        strides=[1, 2, 1, 2, 1],
        padding="SAME",
    ),
    noise(1, 4, 5, 6, 2),
)
case("BiasAdd", lambda x: raw.BiasAdd(value=x, bias=F([1, 2, 3, 4])), X)
case("BiasAdd NCHW", lambda x: raw.BiasAdd(value=x, bias=F([1, 2, 3, 4]), data_format="NCHW"), N)
stats = [some(0.5, 2, 4, seed=i) for i in range(4)]
for op, attrs in (
    ("FusedBatchNorm", {}),
    ("FusedBatchNormV2", {}),
    ("FusedBatchNormV3", {}),
    ("FusedBatchNormV3", {"data_format": "NCHW"}),
):
    case(
        " ".join([op, *attrs.values()]),
        lambda x, op=op, attrs=attrs: getattr(raw, op)(
            x=x,
            scale=stats[0],
            offset=stats[1],
            mean=stats[2],
            variance=stats[3],
            epsilon=0.01,
            is_training=False,
            **attrs,
        )[0],
        N if attrs else X,
    )
case(
    "FusedBatchNormV3 training",
    lambda x: raw.FusedBatchNormV3(
        x=x, scale=stats[0], offset=stats[1], mean=F([]), variance=F([]), epsilon=0.01, is_training=True
    )[:3],
    X,
)
case("MatMul", lambda x: raw.MatMul(a=x, b=noise(5, 3, seed=1)), noise(2, 5))
case(
    "MatMul transposed",
    lambda x: raw.MatMul(a=x, b=noise(3, 5, seed=1), transpose_a=True, transpose_b=True),
    noise(5, 2),
)
case(
    "BatchMatMulV2",
    lambda a, b: raw.BatchMatMulV2(x=a, y=b, adj_y=True),
    noise(2, 1, 4, 5),
    noise(3, 6, 5, seed=1),
)
case("BatchMatMul", lambda a, b: raw.BatchMatMul(x=a, y=b, adj_x=True), noise(2, 5, 4), noise(2, 5, 3, seed=1))
case(
    "Einsum",
    lambda a, b: raw.Einsum(inputs=[a, b], equation="abc,cde->abde"),
    noise(2, 3, 4),
    noise(4, 2, 5, seed=1),
)

V = noise(3, 4, scale=2.0)
for name in ["Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "LeakyRelu"]:
    case(name, lambda x, n=name: getattr(raw, n)(features=x * 3), V)
case("LeakyRelu 0.3", lambda x: raw.LeakyRelu(features=x, alpha=0.3), V)
for name in [
    "Abs",
    "Neg",
    "Sign",
    "Square",
    "Exp",
    "Expm1",
    "Tanh",
    "Sinh",
    "Cosh",
    "Sin",
    "Cos",
    "Tan",
    "Atan",
    "Floor",
    "Ceil",
    "Round",
    "Rint",
    "Erf",
    "Sigmoid",
]:
    case(name, lambda x, n=name: getattr(raw, n)(x=x), V)
for name in ["Sqrt", "Rsqrt", "Reciprocal", "Log", "Log1p"]:
    case(name, lambda x, n=name: getattr(raw, n)(x=x), some(0.1, 4, 3, 4))
for name in ["Asin", "Acos"]:
    case(name, lambda x, n=name: getattr(raw, n)(x=x), some(-0.9, 0.9, 3, 4))
for name in ["ZerosLike", "OnesLike"]:
    case(name, lambda x, n=name: getattr(raw, n)(x=x) + x, V)
case("Softmax", lambda x: raw.Softmax(logits=x), V)
case("LogSoftmax", lambda x: raw.LogSoftmax(logits=x), V)
case("Cast to int32", lambda x: raw.Cast(x=x, DstT=tf.int32), V)
case("Cast to bool", lambda x: raw.Cast(x=x, DstT=tf.bool), ints(-1, 2, 8))
case("Cast to float32", lambda x: raw.Cast(x=x, DstT=tf.float32), ints(0, 200, 8, dtype=np.uint8))

W = noise(4, seed=1)
for name in [
    "Add",
    "AddV2",
    "Sub",
    "Mul",
    "RealDiv",
    "Div",
    "Maximum",
    "Minimum",
    "SquaredDifference",
    "Greater",
    "GreaterEqual",
    "Less",
    "LessEqual",
]:
    case(name, lambda a, b, n=name: getattr(raw, n)(x=a, y=b), V, W)
for name in ["Div", "TruncateDiv", "FloorDiv", "FloorMod", "TruncateMod", "Maximum"]:
    case(f"{name} of int32", lambda a, b, n=name: getattr(raw, n)(x=a, y=b), ints(-9, 9, 5), i32(2, -3, 4, -5, 7))
case("FloorMod", lambda a, b: raw.FloorMod(x=a, y=b), V, some(0.5, 2, 4))
case("DivNoNan", lambda a, b: raw.DivNoNan(x=a, y=b), V, F([1, 0, -2, 0]))
case("Pow", lambda a, b: raw.Pow(x=a, y=b), some(0.1, 3, 3, 4), W)
case("Equal", lambda a, b: raw.Equal(x=a, y=b), i32(1, 2, 3), i32(1, 3, 3))
case("NotEqual", lambda a, b: raw.NotEqual(x=a, y=b), i32(1, 2, 3), i32(1, 3, 3))
case("LogicalAnd", lambda a, b: raw.LogicalAnd(x=a > 0, y=b > 0), V, W)
case("LogicalOr", lambda a, b: raw.LogicalOr(x=a > 0, y=b > 0), V, W)
case("LogicalNot", lambda a: raw.LogicalNot(x=a > 0), V)
case("AddN", lambda a, b: raw.AddN(inputs=[a, b, a]), V, noise(3, 4, seed=4))
case("ClipByValue", lambda x: raw.ClipByValue(t=x, clip_value_min=-0.5, clip_value_max=0.7), V)
case("SelectV2", lambda c, a: raw.SelectV2(condition=c > 0, t=a, e=F(7)), W, V)
case("Select", lambda c, a, b: raw.Select(condition=c > 0, x=a, y=b), noise(3), V, noise(3, 4, seed=5))
for name in ["Mean", "Sum", "Prod", "Max", "Min"]:
    case(f"{name} 1, -1", lambda x, n=name: getattr(raw, n)(input=x, axis=[1, -1]), X)
    case(f"{name} kept", lambda x, n=name: getattr(raw, n)(input=x, axis=2, keep_dims=True), X)
case("Mean of int32", lambda x: raw.Mean(input=x, axis=[1]), ints(0, 50, 3, 4))
case("Sum of int32", lambda x: raw.Sum(input=x, axis=[0]), ints(-9, 9, 3, 4))
case("Any", lambda x: raw.Any(input=x > 1, axis=[0]), V)
case("All", lambda x: raw.All(input=x > -1, axis=[1]), V)
case("EuclideanNorm", lambda x: raw.EuclideanNorm(input=x, axis=[1]), V)
case("ArgMax", lambda x: raw.ArgMax(input=x, dimension=-1), V)
case("ArgMin int32", lambda x: raw.ArgMin(input=x, dimension=0, output_type=tf.int32), V)
for e in (False, True):
    case(f"Cumsum {e}", lambda x, e=e: raw.Cumsum(x=x, axis=1, exclusive=e, reverse=e), V)
case(
    "Shape Reshape",
    lambda x: raw.Reshape(tensor=x, shape=raw.Concat(concat_dim=0, values=[raw.Shape(input=x)[:1], [-1]])),
    X,
)
case("Squeeze all", lambda x: raw.Squeeze(input=x), noise(1, 3, 1, 4))
case("Squeeze one", lambda x: raw.Squeeze(input=x, axis=[2]), noise(1, 3, 1, 4))
case("ExpandDims", lambda x: raw.ExpandDims(input=x, axis=-2), V)
case("Fill", lambda x: raw.Fill(dims=raw.Shape(input=x), value=F(3)) + x, V)
case("BroadcastTo", lambda x: raw.BroadcastTo(input=x, shape=[2, 3, 4]), V)
case("Range", lambda x: x + raw.Range(start=F(1), limit=F(3), delta=F(0.5)), V)
case("LinSpace", lambda x: x + raw.LinSpace(start=F(1), stop=F(3), num=4), V)
case("Concat", lambda a, b: raw.Concat(concat_dim=1, values=[a, b]), V, noise(3, 2))
case("ConcatV2", lambda a, b: raw.ConcatV2(axis=-1, values=[a, b, a]), V, noise(3, 2))
case("Pack", lambda a, b: raw.Pack(axis=-1, values=[a, b]), V, noise(3, 4, seed=1))
case("Unpack", lambda x: raw.Unpack(value=x, num=4, axis=1), V)
case("Split", lambda x: raw.Split(axis=1, value=x, num_split=2), V)
case("SplitV", lambda x: raw.SplitV(value=x, size_splits=[1, -1, 2], axis=-1, num_split=3), noise(2, 7))
case("Transpose", lambda x: raw.Transpose(x=x, perm=[0, 3, 1, 2]), X)
case("Tile", lambda x: raw.Tile(input=x, multiples=[2, 3]), V)
case("ReverseV2", lambda x: raw.ReverseV2(tensor=x, axis=[-1, 0]), V)
P = [[1, 2], [0, 3]]
case("Pad", lambda x: raw.Pad(input=x, paddings=P), V)
case("PadV2", lambda x: raw.PadV2(input=x, paddings=P, constant_values=F(-7.5)), V)
case("MirrorPad REFLECT", lambda x: raw.MirrorPad(input=x, paddings=P, mode="REFLECT"), V)
case("MirrorPad SYMMETRIC", lambda x: raw.MirrorPad(input=x, paddings=P, mode="SYMMETRIC"), V)
case("Slice", lambda x: raw.Slice(input=x, begin=[0, 1, 2, 0], size=[2, 3, -1, 1]), X)
case("StridedSlice", lambda x: x[:, 5:1:-2, ..., 1], X)
case("StridedSlice new axes", lambda x: x[tf.newaxis, 1, ..., tf.newaxis, 1:3], X)
case("StridedSlice open", lambda x: x[:, :3, -2:, ::2], X)
case("StridedSlice all masks", lambda x: x[0, tf.newaxis, ::-1, 2:, tf.newaxis, -1], X)
case("StridedSlice out of range", lambda x: x[-5:9, 3:100], X)
case("Gather", lambda x: raw.Gather(params=x, indices=i32(2, 0, 2)), V)
case("GatherV2", lambda x: raw.GatherV2(params=x, indices=[[1, 3], [0, 0]], axis=-1), V)
case(
    "GatherV2 of batches",
    lambda x: raw.GatherV2(params=x, indices=[[1, 3], [0, 0], [2, 1]], axis=1, batch_dims=1),
    V,
)
case("GatherV2 by data", lambda x, i: raw.GatherV2(params=x, indices=i, axis=0), V, i32(2, 1, 0, 2))
case("GatherNd", lambda x: raw.GatherNd(params=x, indices=[[0, 3], [2, 1]]), V)
case("OneHot", lambda i: raw.OneHot(indices=i, depth=4, on_value=F(2), off_value=F(-1), axis=-1), i32(1, 3, 0, 7))
case(
    "OneHot axis 0",
    lambda i: raw.OneHot(indices=i, depth=3, on_value=F(1), off_value=F(0), axis=0),
    ints(0, 3, 2, 2),
)
case("TopKV2", lambda x: raw.TopKV2(input=x, k=2), V)
case(
    "ReverseSequence", lambda x: raw.ReverseSequence(input=x, seq_lengths=i32(2, 4, 1), seq_dim=1, batch_dim=0), V
)
case("SpaceToDepth", lambda x: raw.SpaceToDepth(input=x, block_size=2), noise(1, 4, 6, 3))
case("DepthToSpace", lambda x: raw.DepthToSpace(input=x, block_size=2), noise(1, 2, 3, 8))
case(
    "SpaceToBatchND",
    lambda x: raw.SpaceToBatchND(input=x, block_shape=[2, 3], paddings=[[1, 0], [2, 1]]),
    noise(1, 5, 6, 2),
)
case(
    "BatchToSpaceND",
    lambda x: raw.BatchToSpaceND(input=x, block_shape=[2, 3], crops=[[1, 0], [2, 1]]),
    noise(12, 3, 4, 2),
)
case(
    "SpaceToBatch", lambda x: raw.SpaceToBatch(input=x, block_size=2, paddings=[[1, 0], [0, 0]]), noise(1, 5, 6, 2)
)
case("BatchToSpace", lambda x: raw.BatchToSpace(input=x, block_size=2, crops=[[1, 0], [0, 1]]), noise(4, 3, 4, 2))
case("LRN", lambda x: raw.LRN(input=x, depth_radius=2, bias=1.5, alpha=0.3, beta=0.75), noise(1, 3, 3, 8))
case("LRN defaults", lambda x: raw.LRN(input=x), noise(1, 2, 2, 14))
for flags in ({}, {"align_corners": True}, {"half_pixel_centers": True}):
    what = "".join(f" {f}" for f in flags)
    for name in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"):
        for size in ((9, 8), (3, 13), (14, 12), (1, 4)):
            case(
                f"{name}{what} to {size[0]} x {size[1]}",
                lambda x, n=name, z=size, f=flags: getattr(raw, n)(images=x, size=list(z), **f),
                noise(1, 7, 6, 2),
            )
B = F([[0.1, 0.2, 0.8, 0.9], [-0.2, 0.5, 0.5, 1.3], [0.9, 0.1, 0.1, 0.6]])
for method in ("bilinear", "nearest"):
    case(
        f"CropAndResize {method}",
        lambda x, b, m=method: raw.CropAndResize(
            image=x, boxes=b, box_ind=i32(0, 1, 0), crop_size=[4, 5], method=m, extrapolation_value=-3.0
        ),
        X,
        B,
    )
case(
    "CropAndResize to 1 x 1",
    lambda x, b: raw.CropAndResize(image=x, boxes=b, box_ind=i32(0, 1, 0), crop_size=[1, 1]),
    X,
    B,
)
corners = some(0, 1, 12, 2, seed=5)
boxes = np.concatenate([corners, corners + some(0.1, 0.5, 12, 2, seed=6)], 1)
scores = some(0, 1, 12, seed=7)
case("NonMaxSuppression", lambda b, s: raw.NonMaxSuppression(boxes=b, scores=s, max_output_size=5), boxes, scores)
case(
    "NonMaxSuppressionV2",
    lambda b, s: raw.NonMaxSuppressionV2(boxes=b, scores=s, max_output_size=20, iou_threshold=0.3),
    boxes,
    scores,
)
case(
    "NonMaxSuppressionV3",
    lambda b, s: raw.NonMaxSuppressionV3(
        boxes=b, scores=s, max_output_size=5, iou_threshold=0.3, score_threshold=0.4
    ),
    boxes,
    scores,
)
for pad in (False, True):
    case(
        f"NonMaxSuppressionV4 {pad}",
        lambda b, s, p=pad: raw.NonMaxSuppressionV4(
            boxes=b,
            scores=s,
            max_output_size=15,
            iou_threshold=0.3,
            score_threshold=0.4,
            pad_to_max_output_size=p,
        ),
        boxes,
        scores,
    )
    case(
        f"NonMaxSuppressionV5 {pad}",
        lambda b, s, p=pad: raw.NonMaxSuppressionV5(
            boxes=b,
            scores=s,
            max_output_size=15,
            iou_threshold=0.3,
            score_threshold=0.4,
            soft_nms_sigma=0.0,
            pad_to_max_output_size=p,
        ),
        boxes,
        scores,
    )


def block(op, **attrs):
    sizes = {"w": noise(3 + 4, 16, seed=1, scale=0.5), "b": noise(16, seed=2)}
    peep = {n: noise(4, seed=i) for i, n in enumerate(("wci", "wcf", "wco"))}
    if op is raw.LSTMBlockCell:
        return lambda x: op(x=x, cs_prev=noise(2, 4, seed=8), h_prev=noise(2, 4, seed=9), **sizes, **peep, **attrs)
    steps = attrs.pop("steps", 5)
    done = lambda x: op(
        seq_len_max=np.int64(steps),
        x=x,
        cs_prev=noise(2, 4, seed=8),
        h_prev=noise(2, 4, seed=9),
        **sizes,
        **peep,
        **attrs,
    )
    return done if steps == 5 else lambda x: done(x).h  # the other results are not defined after the last step


for peephole in (False, True):
    case(f"LSTMBlockCell {peephole}", block(raw.LSTMBlockCell, use_peephole=peephole, cell_clip=0.8), noise(2, 3))
    case(f"BlockLSTM {peephole}", block(raw.BlockLSTM, use_peephole=peephole), noise(5, 2, 3))
    case(f"BlockLSTMV2 {peephole}", block(raw.BlockLSTMV2, use_peephole=peephole, cell_clip=-1), noise(5, 2, 3))
case("BlockLSTM of 3 steps", block(raw.BlockLSTM, steps=3), noise(5, 2, 3))
case("FakeQuantWithMinMaxArgs", lambda x: raw.FakeQuantWithMinMaxArgs(inputs=x, min=-2.1, max=3.3, num_bits=6), V)
case(
    "FakeQuantWithMinMaxVars",
    lambda x: raw.FakeQuantWithMinMaxVars(inputs=x, min=F(-1.5), max=F(2), narrow_range=True),
    V,
)
case(
    "FakeQuantWithMinMaxVarsPerChannel",
    lambda x: raw.FakeQuantWithMinMaxVarsPerChannel(inputs=x, min=F([-1, -2, 0, -3]), max=F([1, 2, 3, 1])),
    V,
)
case("Identity", lambda x: raw.Identity(input=raw.StopGradient(input=x)) + 1.0, V)
case("Where", lambda x: raw.Where(condition=x > 0), V)


def quantized(array, kind):
    dtype = tf.dtypes.as_dtype(kind)
    return tf.constant(np.ascontiguousarray(array).view(dtype.as_numpy_dtype), dtype)


QUANTIZED = {"quint8": np.uint8, "qint8": np.int8, "quint16": np.uint16, "qint16": np.int16, "qint32": np.int32}
for kind, dtype in QUANTIZED.items():
    bounds = np.iinfo(dtype)
    q = np.random.default_rng(3).integers(bounds.min, bounds.max, (2, 3, 4), dtype, endpoint=True)
    modes = [("MIN_COMBINED", {}), ("SCALED", {}), *([("MIN_FIRST", {})] if dtype().nbytes == 1 else [])]
    if bounds.min and dtype().nbytes < 4:
        modes.append(("SCALED", {"narrow_range": True}))
    if dtype().nbytes < 4:
        modes += [(mode, {"axis": 1}) for mode in ("MIN_COMBINED", "SCALED")]
    for mode, more in modes:
        low, high = (F([-1.5, -0.3, -2]), F([2.5, 1, 0.7])) if "axis" in more else (F(-1.2), F(2.7))
        case(
            f"Dequantize {kind} {mode} {more}",
            lambda x, q=q, kind=kind, mode=mode, low=low, high=high, more=more: raw.AddV2(
                x=x,
                y=raw.Dequantize(input=quantized(q, kind), min_range=low, max_range=high, mode=mode, **more),
            ),
            noise(2, 3, 4),
        )
# One picture: for more than one, the results of TensorFlow's fused kernels differ from those of the single operations.
for mode in ("REFLECT", "SYMMETRIC"):
    pads = np.array([[0, 0], [1, 2], [2, 0], [0, 0]], np.int32)
    case(
        f"FusedPadConv2D {mode}",
        lambda x, mode=mode, pads=pads: raw.FusedPadConv2D(
            input=x,
            paddings=pads,
            filter=noise(3, 2, 4, 3, seed=1),
            mode=mode,
            strides=[1, 2, 2, 1],
            padding="VALID",
        ),
        X[:1],
    )
    for corners in (False, True):
        case(
            f"FusedResizeAndPadConv2D {mode} {corners}",
            lambda x, mode=mode, pads=pads, corners=corners: raw.FusedResizeAndPadConv2D(
                input=x,
                size=i32(11, 9),
                paddings=pads,
                filter=noise(3, 2, 4, 3, seed=1),
                resize_align_corners=corners,
                mode=mode,
                strides=[1, 1, 1, 1],
                padding="SAME",
            ),
            X[:1],
        )


@tf.function
def _inner(a, b):
    first, second = tf.split(a * b, 2, axis=1)
    return first + 1.0, tf.nn.top_k(second, 2).indices


case("functions called", lambda a, b: (_inner(a, b)[0] * 2.0, _inner(b, a)[1]), V, noise(3, 4, seed=1))


def graph_of(function, inputs):
    specs = [tf.TensorSpec(x.shape, x.dtype, name=f"in{i}") for i, x in enumerate(inputs)]

    def named(*xs):
        done = function(*xs)
        return list(done) if isinstance(done, (list, tuple)) else [done]

    concrete = tf.function(named, autograph=False).get_concrete_function(*specs)
    graph = concrete.graph.as_graph_def()
    for node in graph.node:
        for key in [k for k in node.attr if k.startswith("_")]:
            del node.attr[key]
    for f in graph.library.function:
        f.attr.clear()
    names = [y.op.name for y in concrete.outputs]
    return graph.SerializeToString(), dict(zip(names, (y.numpy() for y in concrete(*map(tf.constant, inputs)))))


def main():
    data, index, seen = bytearray(), [], {}

    def put(array):
        array = np.asarray(array)
        raw_bytes = array.tobytes()
        if raw_bytes not in seen:
            seen[raw_bytes] = len(data)
            data.extend(raw_bytes)
        return [array.dtype.name, list(array.shape), seen[raw_bytes]]

    for name, (function, inputs) in CASES.items():
        graph, outputs = graph_of(function, inputs)
        index.append(
            {
                "name": name,
                "graph": put(np.frombuffer(graph, np.uint8)),
                "inputs": list(map(put, inputs)),
                "outputs": {k: put(y) for k, y in outputs.items()},
            }
        )
    target = Path(__file__).with_name("operations.npz")
    np.savez_compressed(
        target,
        index=np.frombuffer(json.dumps(index).encode(), np.uint8),
        data=np.frombuffer(bytes(data), np.uint8),
    )
    print(len(CASES), "cases", target.stat().st_size, "bytes")


main()
