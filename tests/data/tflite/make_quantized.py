"""Make quantized.npz: models of single quantized operators, and what they compute, as in make_operators.py.

python make_quantized.py    (needs what make_operators.py needs)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from make_operators import CASES, I32, RELU, RELU6, SAME, VALID, F, c, case, noise, save

I8, U8, I16 = np.int8, np.uint8, np.int16
DTYPES = {"int8": I8, "uint8": U8, "int16": I16}


@dataclass
class Q:
    """Real numbers with the scale and zero point with which they are stored."""

    reals: Any
    dtype: Any
    scale: Any
    zero: Any = 0
    axis: int = 0

    @property
    def integers(self):
        scale, zero = np.asarray(self.scale), np.asarray(self.zero)
        if scale.ndim:
            wide = [-1 if i == self.axis else 1 for i in range(self.reals.ndim)]
            scale, zero = scale.reshape(wide), zero.reshape(wide) if zero.ndim else zero
        limits = np.iinfo(self.dtype)
        return np.clip(np.round(self.reals / scale) + zero, limits.min, limits.max).astype(self.dtype)


def values(reals, dtype=I8, share=1.0, const=False):
    """Return numbers stored with a range of theirs: one scale, and a zero point except for int16."""
    low, high = min(float(np.min(reals)), 0) * share, max(float(np.max(reals)), 0) * share
    limits = np.iinfo(dtype)
    if dtype == I16:
        q = Q(reals, dtype, max(-low, high) / limits.max)
    else:
        scale = (high - low) / 255
        q = Q(reals, dtype, scale, int(np.clip(np.round(limits.min - low / scale), limits.min, limits.max)))
    return ("const", q) if const else q


def weights(reals, axis=0, dtype=I8, per_channel=True, bits=8):
    """Return constant weights: one scale per channel or in all, without a zero point except for uint8."""
    if dtype == U8:
        return values(reals, U8, const=True)
    others = tuple(i for i in range(reals.ndim) if i != axis)
    largest = np.abs(reals).max(others if per_channel else None)
    return ("const", Q(reals, dtype, largest / (2 ** (bits - 1) - 1), np.zeros_like(largest, int), axis))


def bias(reals, x, w):
    """Return a bias in steps of the product of both scales."""
    scale = np.asarray(x.scale * w[1].scale)
    return ("const", Q(reals, np.int64 if x.dtype == I16 else I32, scale, np.zeros_like(scale, int)))


def quantized(name, inputs, outputs, options=None, int4=(), **more):
    """Add a case. outputs: a dtype or (dtype, scale, zero) of each. int4: the inputs that are stored so."""

    def steps(tensor, q):
        if isinstance(q, Q):
            q = (q.dtype, q.scale, q.zero, q.axis)
        if isinstance(q, tuple):
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(q[1]).astype(F)
            tensor.quantization.zeroPoint = np.atleast_1d(q[2]).astype(np.int64)
            tensor.quantization.quantizedDimension = q[3] if len(q) > 3 else 0

    def change(whole, graph, step):
        for index, given in zip(step.inputs, inputs):
            steps(graph.tensors[index], given[1] if isinstance(given, tuple) else given)
        for index, given in zip(step.outputs, outputs):
            steps(graph.tensors[index], given)
        for i in int4:
            tensor = graph.tensors[step.inputs[i]]
            tensor.type = schema.TensorType.INT4
            stored = np.asarray(whole.buffers[tensor.buffer].data).view(U8) & 15
            stored = np.append(stored, np.zeros(stored.size % 2, U8))
            whole.buffers[tensor.buffer].data = stored[::2] | stored[1::2] << 4

    def plain(given):
        if isinstance(given, Q):
            return given.integers
        return ("const", given[1].integers) if isinstance(given, tuple) and isinstance(given[1], Q) else given

    dtypes = [q[0] if isinstance(q, tuple) else q for q in outputs]
    case(name, [plain(i) for i in inputs], options, dtypes, change=change, **more)


def out(dtype, low, high):
    """Return the steps of an output in a range."""
    q = values(np.array([low, high]), dtype)
    return dtype, q.scale, q.zero


CONVOLUTIONS = (
    ("same", (3, 2), {"padding": SAME, "strideH": 2, "strideW": 2}),
    ("relu6", (3, 3), {"padding": VALID, "fusedActivationFunction": RELU6}),
)


def products():
    real = noise(2, 6, 5, 4)
    for kind, dtype in DTYPES.items():
        x, to = values(real, dtype), out(dtype, -4, 7)
        for title, k, more in CONVOLUTIONS:
            how = {"strideH": 1, "strideW": 1, **more}
            w = weights(noise(5, *k, 4, seed=1, scale=0.4), dtype=U8 if dtype == U8 else I8)
            b = bias(noise(5, seed=9), x, w)
            quantized(f"CONV_2D {kind} {title}", [x, w, b], [to], ("Conv2DOptions", how), version=5)
            w = weights(noise(1, *k, 8, seed=2), 3, U8 if dtype == U8 else I8)
            b = bias(noise(8, seed=3), x, w)
            options = ("DepthwiseConv2DOptions", {**how, "depthMultiplier": 2})
            quantized(f"DEPTHWISE_CONV_2D {kind} {title}", [x, w, b], [to], options, version=5)
        w = weights(noise(5, 3, 3, 4, seed=4, scale=0.4), dtype=U8 if dtype == U8 else I8)
        how = ("TransposeConvOptions", {"padding": SAME, "strideH": 2, "strideW": 2})
        more = [bias(noise(5, seed=9), x, w)] if dtype != U8 else []
        quantized(f"TRANSPOSE_CONV {kind}", [c((2, 12, 10, 5), I32), w, x, *more], [to], how, version=3)
        w = weights(noise(6, 20, seed=1, scale=0.4), dtype=U8 if dtype == U8 else I8, per_channel=False)
        b = bias(noise(6, seed=9), x, w)
        how = {"fusedActivationFunction": RELU if dtype == I8 else 0}
        quantized(f"FULLY_CONNECTED {kind}", [x, w, b], [to], ("FullyConnectedOptions", how), version=7)
    x, to = values(real), out(I8, -4, 7)
    for title, w in (
        ("per channel", weights(noise(6, 20, seed=1, scale=0.4))),
        ("int4", weights(noise(6, 20, seed=1, scale=0.4), per_channel=False, bits=4)),
    ):
        b = bias(noise(6, seed=9), x, w)
        more = {"int4": (1,) if title == "int4" else ()}
        quantized(f"FULLY_CONNECTED {title}", [x, w, b], [to], ("FullyConnectedOptions", {}), version=7, **more)
    w = weights(noise(5, 3, 3, 4, seed=1, scale=0.4), bits=4)
    options = ("Conv2DOptions", {"strideH": 1, "strideW": 1})
    quantized("CONV_2D int4", [x, w, bias(noise(5), x, w)], [to], options, version=5, int4=(1,))
    for kind in ("int8", "int16"):
        a, b = values(noise(2, 1, 3, 4), DTYPES[kind]), values(noise(5, 4, 6), DTYPES[kind])
        quantized(
            f"BATCH_MATMUL {kind}", [a, b], [out(DTYPES[kind], -4, 4)], ("BatchMatMulOptions", {}), version=3
        )


def hybrids():
    for title, real in (("rows", noise(3, 20)), ("images", noise(2, 6, 5, 4))):
        for asymmetric in (False, True):
            w = weights(noise(6, 20, seed=1, scale=0.4), per_channel=False)
            how = {"asymmetricQuantizeInputs": asymmetric}
            inputs = [real + F(0.5), w, c(noise(6))]
            options = ("FullyConnectedOptions", how)
            quantized(f"FULLY_CONNECTED hybrid {title} {asymmetric}", inputs, [F], options, version=9)
            w = weights(noise(6, 20, seed=1, scale=0.4))
            inputs[1] = w
            quantized(f"FULLY_CONNECTED hybrid channels {title} {asymmetric}", inputs, [F], options, version=9)
    real = noise(2, 6, 5, 4) * np.array([1, 3], F).reshape(2, 1, 1, 1)
    for title, k, more in CONVOLUTIONS:
        how = {"strideH": 1, "strideW": 1, **more}
        for per_channel in (True, False):
            w = weights(noise(5, *k, 4, seed=1, scale=0.4), per_channel=per_channel)
            inputs, name = [real, w, c(noise(5))], f"hybrid {title} {per_channel}"
            quantized(f"CONV_2D {name}", inputs, [F], ("Conv2DOptions", how), version=5)
        inputs = [real, weights(noise(1, *k, 8, seed=2), 3), c(noise(8))]
        options = ("DepthwiseConv2DOptions", {**how, "depthMultiplier": 2})
        quantized(f"DEPTHWISE_CONV_2D hybrid {title}", inputs, [F], options, version=6)
    inputs = [c((2, 12, 10, 5), I32), weights(noise(5, 3, 3, 4, seed=4, scale=0.4)), real]
    how = ("TransposeConvOptions", {"padding": SAME, "strideH": 2, "strideW": 2})
    quantized("TRANSPOSE_CONV hybrid", inputs, [F], how, version=3)
    quantized("TRANSPOSE_CONV hybrid bias", [*inputs, c(noise(5))], [F], how, version=3)
    for asymmetric in (False, True):
        inputs = [noise(2, 3, 4) + F(0.5), weights(noise(2, 4, 6), per_channel=False)]
        how = {"asymmetricQuantizeInputs": asymmetric}
        quantized(f"BATCH_MATMUL hybrid {asymmetric}", inputs, [F], ("BatchMatMulOptions", how), version=4)


def elements():
    real = noise(2, 3, 4, 5, scale=3)
    for kind, dtype in DTYPES.items():
        x, y = values(real, dtype), values(noise(3, 1, 5, seed=1), dtype)
        half = 1 / 32768 if dtype == I16 else 1 / 256
        zero = {"int8": -128, "uint8": 0, "int16": 0}[kind]
        quantized(f"LOGISTIC {kind}", [x], [(dtype, half, zero)], version=3)
        steps = (dtype, half if dtype == I16 else 2 * half, 128 if dtype == U8 else 0)
        quantized(f"TANH {kind}", [x], [steps], version=3)
        quantized(f"SOFTMAX {kind}", [x], [(dtype, half, zero)], ("SoftmaxOptions", {"beta": 1.0}), version=3)
        quantized(f"LEAKY_RELU {kind}", [x], [out(dtype, -4, 9)], ("LeakyReluOptions", {"alpha": 0.3}), version=2)
        for name in ("RELU", "RELU6"):
            quantized(f"{name} {kind}", [x], [out(dtype, 0, 6)], version=3)
        for name, table in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")):
            for title, how in (("", {}), (" relu", {"fusedActivationFunction": RELU})):
                if dtype == I16:
                    how = {**how, **({"potScaleInt16": False} if name != "MUL" else {})}
                to = out(dtype, -12, 12)
                quantized(f"{name} {kind}{title}", [x, y], [to], (table, how), version=3 if dtype == I16 else 2)
        for name in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
            if dtype != I16:
                z = Q(real + noise(2, 3, 4, 5, seed=5, scale=0.02), dtype, x.scale * 1.3, x.zero)
                quantized(f"{name} {kind}", [x, z], [bool], version=2)
                z = Q(z.reals, dtype, x.scale, x.zero)
                quantized(f"{name} {kind} one scale", [x, z], [bool], version=2)
        for name in ("MAXIMUM", "MINIMUM"):
            y = Q(noise(3, 1, 5, seed=1), dtype, x.scale, x.zero)
            quantized(f"{name} {kind}", [x, y], [(dtype, x.scale, x.zero)], version=3 if dtype == I16 else 2)
        quantized(f"DEQUANTIZE {kind}", [x], [F], version=3)
        quantized(f"QUANTIZE {kind}", [real], [(dtype, x.scale, x.zero)], version=2)
        for other, number in DTYPES.items():
            if (kind, other) not in (("uint8", "int16"), ("int16", "uint8")):
                quantized(f"QUANTIZE {kind} to {other}", [x], [out(number, -6, 8)], version=2)
        quantized(f"CAST {kind}", [np.arange(100, 120).astype(dtype)], [F], version=3)
        quantized(f"CAST to {kind}", [np.linspace(0, 90, 13).astype(F)], [dtype], version=3)
        z = Q(noise(2, 3, 4, 5, seed=5), dtype, x.scale, x.zero)
        quantized(f"SELECT_V2 {kind}", [real > 1, x, z], [(dtype, x.scale, x.zero)], ("SelectV2Options", {}))
    for scale in (1, 2.3, 6):
        x = values(noise(6, 100, scale=scale), I16)
        for name, options in (("LOGISTIC", None), ("TANH", None), ("SOFTMAX", ("SoftmaxOptions", {"beta": 1.0}))):
            quantized(f"{name} int16 {scale}", [x], [(I16, 1 / 32768, 0)], options, version=3)
    x, y = values(real), values(noise(3, 1, 5, seed=1))
    quantized("QUANTIZE int16 to int32", [values(real, I16)], [(I32, 3 / 2**20, 0)], version=2)
    quantized("QUANTIZE int32 to int8", [Q(real, I32, 1e-4)], [out(I8, -6, 8)], version=2)
    quantized("QUANTIZE int32 to int16", [Q(real, I32, 1e-4)], [(I16, 1e-3, 0)], version=2)
    u = values(np.abs(real) + F(0.5), U8)
    quantized("DIV uint8", [values(real, U8), u], [out(U8, -5, 5)], ("DivOptions", {}), version=2)
    quantized("PRELU int8", [x, values(noise(1, 1, 5, seed=1), const=True)], [out(I8, -9, 9)])
    quantized("PRELU uint8", [values(real, U8), values(noise(1, 1, 5, seed=1), U8, const=True)], [out(U8, -9, 9)])
    for kind in ("int8", "uint8"):
        dtype = DTYPES[kind]
        quantized(f"HARD_SWISH {kind}", [values(real, dtype)], [out(dtype, -0.4, 9)])
    for name, to in (("ABS", (0, 10)), ("ELU", (-1, 9)), ("EXP", (0, 300)), ("LOG_SOFTMAX", None), ("NEG", None),
                     ("SQUARED_DIFFERENCE", (0, 60))):  # fmt: skip
        inputs = [x, y] if name == "SQUARED_DIFFERENCE" else [x]
        steps = (I8, 16 / 256, 127) if to is None else out(I8, *to)
        if name != "NEG":
            quantized(f"{name} int8", inputs, [steps], version=2 if name not in ("ELU",) else 1)
    positive = values(np.abs(real) + F(0.5))
    quantized("RSQRT int8", [values(np.abs(real) + F(0.5))], [out(I8, 0, 1.5)], version=2)
    quantized("LOG int8", [positive], [out(I8, -2, 3)], version=2)
    quantized("GELU int8", [x], [out(I8, -0.5, 9)], ("GeluOptions", {}), version=2)
    quantized("GELU int8 approximate", [x], [out(I8, -0.5, 9)], ("GeluOptions", {"approximate": True}), version=2)


def windows():
    real = noise(2, 7, 6, 4)
    for kind, dtype in DTYPES.items():
        x = values(real, dtype)
        steps = (dtype, x.scale, x.zero)
        for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
            for title, how in (
                ("same", {"padding": SAME, "strideH": 2, "strideW": 2, "filterHeight": 3, "filterWidth": 2}),
                ("relu", {"padding": VALID, "strideH": 1, "strideW": 1, "filterHeight": 2, "filterWidth": 2,
                          "fusedActivationFunction": RELU}),
            ):  # fmt: skip
                quantized(f"{name} {kind} {title}", [x], [steps], ("Pool2DOptions", how), version=3)
        for corners, half in ((0, 0), (1, 0), (0, 1)):
            for size in ((14, 12), (5, 9), (3, 2)):
                how = {"alignCorners": bool(corners), "halfPixelCenters": bool(half)}
                title = f"{kind} {size} {corners} {half}"
                inputs = [x, c(size, I32)]
                for one, table in (
                    ("RESIZE_BILINEAR", "Bilinear"),
                    ("RESIZE_NEAREST_NEIGHBOR", "NearestNeighbor"),
                ):
                    if size == (5, 9) or one == "RESIZE_BILINEAR":
                        quantized(f"{one} {title}", inputs, [steps], (f"Resize{table}Options", how), version=4)
        x = values(real[:, :6], dtype)
        steps = (dtype, x.scale, x.zero)
        if dtype != I16:
            quantized(f"SPACE_TO_DEPTH {kind}", [x], [steps], ("SpaceToDepthOptions", {"blockSize": 2}), version=2)
            quantized(f"DEPTH_TO_SPACE {kind}", [x], [steps], ("DepthToSpaceOptions", {"blockSize": 2}), version=2)
        pads = c([[1, 1], [0, 2]], I32)
        quantized(
            f"SPACE_TO_BATCH_ND {kind}", [x, c([2, 2], I32), pads], [steps], version=4 if dtype == I16 else 2
        )
        x = Q(noise(8, 3, 4, 3), dtype, x.scale, x.zero)
        quantized(
            f"BATCH_TO_SPACE_ND {kind}", [x, c([2, 2], I32), pads], [steps], version=4 if dtype == I16 else 2
        )


def moves():
    real = noise(2, 3, 4)
    for kind, dtype in DTYPES.items():
        x = values(real, dtype)
        steps, other = (dtype, x.scale, x.zero), Q(noise(2, 1, 4), dtype, x.scale, x.zero)
        pads = c([[1, 0], [0, 2], [1, 1]], I32)
        quantized(f"RESHAPE {kind}", [x, c([4, 6], I32)], [steps], ("ReshapeOptions", {"newShape": [4, 6]}))
        quantized(f"TRANSPOSE {kind}", [x, c([2, 0, 1], I32)], [steps], ("TransposeOptions", {}), version=4)
        quantized(f"PAD {kind}", [x, pads], [steps], ("PadOptions", {}), version=3)
        fill = ("const", Q(np.array(0.5, F), dtype, x.scale, x.zero))
        quantized(f"PADV2 {kind}", [x, pads, fill], [steps], ("PadV2Options", {}), version=3)
        if dtype != I16:
            quantized(f"MIRROR_PAD {kind}", [x, pads], [steps], ("MirrorPadOptions", {"mode": 1}), version=2)
        how = ("StridedSliceOptions", {"beginMask": 1, "endMask": 4})
        given = [x, c([0, 1, 0], I32), c([1, 9, 0], I32), c([1, 1, 1], I32)]
        quantized(f"STRIDED_SLICE {kind}", given, [steps], how, version=4)
        given = [x, c([0, 1, 2], I32), c([-1, 2, 1], I32)]
        quantized(f"SLICE {kind}", given, [steps], ("SliceOptions", {}), version=4, shape=(2, 2, 1))
        quantized(f"SPLIT {kind}", [c(-1, I32), x], [steps] * 2, ("SplitOptions", {"numSplits": 2}), version=4)
        quantized(
            f"PACK {kind}",
            [x, Q(noise(2, 3, 4, seed=2), *steps)],
            [steps],
            ("PackOptions", {"valuesCount": 2}),
            version=3,
        )
        quantized(f"UNPACK {kind}", [x], [steps] * 3, ("UnpackOptions", {"num": 3, "axis": 1}), version=4)
        quantized(f"CONCATENATION {kind}", [x, other], [steps], ("ConcatenationOptions", {"axis": 1}), version=3)
        quantized(f"GATHER {kind}", [x, np.array([2, 0], I32)], [steps], ("GatherOptions", {"axis": 1}), version=4)
        quantized(f"TILE {kind}", [x, c([2, 1, 3], I32)], [steps], ("TileOptions", {}), version=3)
        for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"):
            for axes, keep in (([1], False), ([0, 2], True)):
                title = f"{name} {kind} {axes}"
                summed, to = name in ("MEAN", "SUM"), steps
                if summed:
                    to = out(dtype, -5, 5) if name == "SUM" else out(dtype, -1, 1)
                given = [values(noise(2, 17, 8), dtype) if summed else x, c(axes, I32)]
                if (name, kind) != ("SUM", "int16"):
                    how = ("ReducerOptions", {"keepDims": keep})
                    quantized(title, given, [to], how, version=2 if name == "SUM" else 3)
        if dtype != I16:
            for name in ("ARG_MAX", "ARG_MIN"):
                quantized(
                    f"{name} {kind}",
                    [x, c(-1, I32)],
                    [np.int64],
                    (f"{name.title().replace('_', '')}Options", {"outputType": 4}),
                    version=2,
                )
            quantized(f"TOPK_V2 {kind}", [x, c(3, I32)], [steps, I32], ("TopKV2Options", {}), version=2)
            zero = 128 if dtype == U8 else 0
            quantized(
                f"L2_NORMALIZATION {kind}",
                [values(noise(2, 3, 4, 5), dtype)],
                [(dtype, 1 / 128, zero)],
                ("L2NormOptions", {}),
                version=2,
            )
    x = values(real, U8)
    other = values(noise(2, 1, 4, scale=2), U8)
    quantized("CONCATENATION scales", [x, other], [out(U8, -4, 4)], ("ConcatenationOptions", {"axis": 1}))


def detections():
    anchors = np.random.default_rng(7).uniform(0.2, 0.6, (40, 4))
    inputs = [
        values(noise(1, 40, 4), U8),
        values(np.abs(noise(1, 40, 4, seed=1)), U8),
        values(anchors, U8, const=True),
    ]
    how = {"max_detections": 6, "max_classes_per_detection": 1, "nms_score_threshold": 0.25, "num_classes": 3}
    how |= {"nms_iou_threshold": 0.4, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
    quantized("TFLite_Detection_PostProcess uint8", inputs, [F] * 4, how)


def main():
    for make in (products, hybrids, elements, windows, moves, detections):
        make()
    save("quantized.npz", CASES)


if __name__ == "__main__":
    main()
