"""Make operators.npz and special.npz: small models of single operators, and what they compute.

    python make_operators.py    (needs ai-edge-litert and flatbuffers; the file was made with 2.3.0 and 25.12.19)

The results are those of the reference interpreter without delegates. The file holds `index` (JSON) and `data`: for
each case its name, the model, and its inputs and outputs by name. special.npz has models for tests of the reader.
"""

from __future__ import annotations

import json
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from flatbuffers import flexbuffers

F, I32 = np.float32, np.int32
CASES: list[dict] = []
TYPES = {
    np.dtype(k): v
    for k, v in (("f4", 0), ("f2", 1), ("i4", 2), ("i8", 4), ("?", 6), ("u1", 3), ("i2", 7), ("i1", 9))
}
SAME, VALID = 0, 1
RELU, RELU_N1_TO_1, RELU6 = 1, 2, 3


def noise(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(F)


def model(kind, inputs, options, outputs, version=1, change=None):
    """Return the bytes of a model of one operator, which `change` changes before it is written.

    inputs: arrays; ("const", array) is a constant, and None is absent. options: the name of the table and its
    fields. outputs: the shape and dtype of each output.
    """
    whole = schema.ModelT()
    whole.version, whole.description = 3, "one operator"
    code = schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, kind, schema.BuiltinOperator.CUSTOM)
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    code.version = version
    graph = schema.SubGraphT()
    graph.tensors, graph.inputs, graph.outputs = [], [], []
    whole.buffers = [schema.BufferT()]

    def tensor(name, shape, dtype):
        one = schema.TensorT()
        one.name, one.shape, one.type, one.buffer = name, list(shape), TYPES[np.dtype(dtype)], 0
        graph.tensors.append(one)
        return len(graph.tensors) - 1

    step = schema.OperatorT()
    step.inputs, step.outputs = [], []
    for i, given in enumerate(inputs):
        if given is None:
            step.inputs.append(-1)
        elif isinstance(given, tuple):
            array = np.asarray(given[1])
            step.inputs.append(tensor(f"const{i}", array.shape, array.dtype))
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(array.tobytes(), np.uint8)
            graph.tensors[-1].buffer = len(whole.buffers)
            whole.buffers.append(buffer)
        else:
            step.inputs.append(tensor(f"in{i}", given.shape, given.dtype))
            graph.inputs.append(step.inputs[-1])
    for i, (shape, dtype) in enumerate(outputs):
        step.outputs.append(tensor(f"out{i}", shape, dtype))
        graph.outputs.append(step.outputs[-1])
    if code.builtinCode == schema.BuiltinOperator.CUSTOM:
        code.customCode, step.customOptions = kind, np.frombuffer(flexbuffers.Dumps(options or {}), np.uint8)
    elif options:
        name, fields = options
        step.builtinOptionsType = getattr(schema.BuiltinOptions, name)
        step.builtinOptions = getattr(schema, f"{name}T")()
        for field, value in fields.items():
            assert hasattr(step.builtinOptions, field), field
            setattr(step.builtinOptions, field, value)
    graph.operators, whole.subgraphs, whole.operatorCodes = [step], [graph], [code]
    if change is not None:
        change(whole, graph, step)
    builder = flatbuffers.Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def run(stored, given):
    """Return the outputs of a model by name, as the interpreter computes them."""
    runner = Interpreter(
        model_content=stored, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    runner.allocate_tensors()
    for detail in runner.get_input_details():
        runner.set_tensor(detail["index"], given[detail["name"]])
    runner.invoke()
    return {d["name"]: runner.get_tensor(d["index"]).copy() for d in runner.get_output_details()}


def case(name, inputs, options=None, dtypes=(F,), version=1, shape=(1,), change=None):
    """Add a case. The interpreter finds the shapes of the outputs. SLICE needs a `shape` of the right rank."""
    inputs = [i if i is None or isinstance(i, tuple) else np.asarray(i) for i in inputs]
    kind = name.split()[0]
    shapes = [shape] * len(dtypes)
    for _ in range(2):  # the second file states the shapes
        stored = model(kind, inputs, options, list(zip(shapes, dtypes)), version, change)
        given = {f"in{i}": x for i, x in enumerate(inputs) if isinstance(x, np.ndarray)}
        outputs = run(stored, given)
        shapes = [outputs[f"out{i}"].shape for i in range(len(dtypes))]
    CASES.append({"name": name, "model": stored, "inputs": given, "outputs": outputs})


def c(array, dtype=None):
    """Return a constant input."""
    return ("const", np.asarray(array, dtype))


def windows():
    x, b = noise(2, 7, 6, 4), c(noise(5, seed=9))
    for title, k, more in (
        ("same", (3, 2), {"padding": SAME}),
        ("valid", (3, 3), {"padding": VALID}),
        ("stride", (3, 3), {"padding": SAME, "strideH": 2, "strideW": 3}),
        ("dilation", (2, 3), {"padding": SAME, "dilationHFactor": 2, "dilationWFactor": 2}),
        ("relu6", (1, 1), {"padding": VALID, "fusedActivationFunction": RELU6}),
        ("relu_n1_to_1", (1, 1), {"padding": VALID, "fusedActivationFunction": RELU_N1_TO_1}),
    ):
        how = {"strideH": 1, "strideW": 1, **more}
        case(f"CONV_2D {title}", [x, c(noise(5, *k, 4, seed=1)), b], ("Conv2DOptions", how))
        w, bias = noise(1, *k, 8, seed=2), c(noise(8, seed=3))
        # TFLite strides a depthwise convolution alike in both directions
        how["strideW"] = how["strideH"]
        case(
            f"DEPTHWISE_CONV_2D {title}",
            [x, c(w), bias],
            ("DepthwiseConv2DOptions", {**how, "depthMultiplier": 2}),
        )
    case("CONV_2D groups", [x, c(noise(6, 3, 3, 2)), c(noise(6))], ("Conv2DOptions", {"strideH": 1, "strideW": 1}))
    for title, shape, how in (
        ("valid", (2, 9, 8, 5), {"padding": VALID, "strideH": 1, "strideW": 1}),
        ("same", (2, 14, 12, 5), {"padding": SAME, "strideH": 2, "strideW": 2}),
        ("odd", (2, 13, 17, 5), {"padding": SAME, "strideH": 2, "strideW": 3}),
    ):
        w = c(noise(5, 3, 3, 4, seed=4))
        case(f"TRANSPOSE_CONV {title}", [c(shape, I32), w, x], ("TransposeConvOptions", how))
        how = {**how, "fusedActivationFunction": RELU}
        case(f"TRANSPOSE_CONV {title} bias", [c(shape, I32), w, x, b], ("TransposeConvOptions", how), version=4)
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        for title, how in (
            ("same", {"padding": SAME, "strideH": 2, "strideW": 2, "filterHeight": 3, "filterWidth": 2}),
            ("valid", {"padding": VALID, "strideH": 1, "strideW": 3, "filterHeight": 2, "filterWidth": 2}),
            ("relu", {"padding": VALID, "strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2,
                      "fusedActivationFunction": RELU}),
        ):  # fmt: skip
            case(f"{kind} {title}", [x], ("Pool2DOptions", how))
    for kind, table in (("RESIZE_BILINEAR", "Bilinear"), ("RESIZE_NEAREST_NEIGHBOR", "NearestNeighbor")):
        for corners, half in ((0, 0), (1, 0), (0, 1)):
            how = {"alignCorners": bool(corners), "halfPixelCenters": bool(half)}
            for size in ((14, 12), (5, 9), (3, 2), (13, 1)):
                title = f"{kind} {size} {corners} {half}"
                case(title, [x, c(size, I32)], (f"Resize{table}Options", how), version=3)
    case("SPACE_TO_DEPTH", [noise(2, 4, 6, 3)], ("SpaceToDepthOptions", {"blockSize": 2}))
    case("DEPTH_TO_SPACE", [noise(2, 2, 3, 12)], ("DepthToSpaceOptions", {"blockSize": 2}))
    pads = c([[1, 0], [2, 2]], I32)
    case("SPACE_TO_BATCH_ND", [noise(2, 5, 4, 3), c([2, 2], I32), pads], ("SpaceToBatchNDOptions", {}))
    case("BATCH_TO_SPACE_ND", [noise(8, 3, 4, 3), c([2, 2], I32), pads], ("BatchToSpaceNDOptions", {}))


def elements():
    x = noise(2, 3, 5, scale=3)
    names = (
        "ABS CEIL COS EXP FLOOR NEG ROUND SIGN SIN SQUARE RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 ELU TANH LOGISTIC"
    )
    for kind in (*names.split(), "LOG_SOFTMAX", "HARD_SWISH"):
        case(kind, [x])
    case("ROUND halves", [np.arange(-4, 4, 0.5).astype(F)])
    case("ABS int32", [np.arange(-4, 4).astype(I32)], dtypes=(I32,))
    case("NEG int64", [np.arange(-4, 4)], dtypes=(np.int64,))
    for kind in ("LOG", "RSQRT", "SQRT"):
        case(kind, [np.abs(x) + F(0.1)])
    case("LOGICAL_NOT", [x > 0], dtypes=(bool,))
    case("ZEROS_LIKE", [x], ("ZerosLikeOptions", {}))
    case("LEAKY_RELU", [x], ("LeakyReluOptions", {"alpha": 0.3}))
    case("GELU", [x], ("GeluOptions", {"approximate": False}))
    case("GELU approximate", [x], ("GeluOptions", {"approximate": True}))
    case("PRELU", [noise(2, 3, 4, 5), c(noise(1, 1, 5, seed=1))])
    case("PRELU whole", [noise(2, 3, 4, 5), c(noise(3, 4, 5, seed=1))])
    case("SOFTMAX", [x], ("SoftmaxOptions", {"beta": 1.0}))
    case("SOFTMAX beta", [x], ("SoftmaxOptions", {"beta": 0.5}))

    case("FAKE_QUANT", [x], ("FakeQuantOptions", {"min": -2.0, "max": 3.0, "numBits": 8}))
    case("DEQUANTIZE", [c(x.astype(np.float16))])
    for title, given, to in (("int", x, I32), ("int64", x, np.int64), ("bool", x, bool),
                             ("from bool", x > 0, F), ("from int", np.arange(-3, 3).astype(I32), F)):  # fmt: skip
        case(f"CAST {title}", [given], dtypes=(to,))
    a, b = noise(2, 1, 4, 5), noise(3, 1, 5, seed=1)
    a[0, 0, 0] = b[0, 0]
    for kind in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD"):
        case(kind, [a, b])
    case("POW", [np.abs(a), b], ("PowOptions", {}))
    for kind in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
        case(kind, [a, b], dtypes=(bool,))
    for kind in ("LOGICAL_AND", "LOGICAL_OR"):
        case(kind, [a > 0, b > 0], dtypes=(bool,))
    whole = np.array([-7, -6, 5, 7, 8, -1], I32)
    by = np.array([2, -4, -3, 2, 3, -5], I32)
    for kind in ("FLOOR_DIV", "FLOOR_MOD", "MAXIMUM"):
        case(f"{kind} int", [whole, by], dtypes=(I32,))
    case("ADD_N", [a, noise(2, 1, 4, 5, seed=3), noise(2, 1, 4, 5, seed=4)], ("AddNOptions", {}))
    for kind, table in (
        ("ADD", "AddOptions"),
        ("SUB", "SubOptions"),
        ("MUL", "MulOptions"),
        ("DIV", "DivOptions"),
    ):
        for activation in range(4):
            case(f"{kind} {activation}", [a, b], (table, {"fusedActivationFunction": activation}))
        case(f"{kind} constant", [a, c(b)], (table, {}))
        case(f"{kind} int", [whole, by], (table, {}), dtypes=(I32,))
    case("SELECT", [a > 0, a, noise(2, 1, 4, 5, seed=3)], ("SelectOptions", {}))
    case("SELECT rows", [np.array([True, False]), a, noise(2, 1, 4, 5, seed=3)], ("SelectOptions", {}))
    case("SELECT_V2", [b > 0, a, noise(5, seed=3)], ("SelectV2Options", {}))


def reductions():
    x = noise(3, 4, 5)
    for keep in (False, True):
        how = ("FullyConnectedOptions", {"keepNumDims": keep})
        case(f"FULLY_CONNECTED {keep}", [x, c(noise(6, 5)), c(noise(6, seed=1))], how, version=5)
    case(
        "FULLY_CONNECTED no bias",
        [x, c(noise(6, 20))],
        ("FullyConnectedOptions", {"fusedActivationFunction": RELU}),
    )
    for adj_x, adj_y in ((False, False), (True, False), (False, True)):
        a = noise(2, 1, 4, 3) if adj_x else noise(2, 1, 3, 4)
        b = noise(5, 6, 4) if adj_y else noise(5, 4, 6)
        case(f"BATCH_MATMUL {adj_x} {adj_y}", [a, b], ("BatchMatMulOptions", {"adjX": adj_x, "adjY": adj_y}))
    for kind in ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"):
        for axes, keep in (([1], False), ([-1, 0], True), ([0, 1, 2], False), ([], False)):
            case(f"{kind} {axes} {keep}", [x, c(axes, I32)], ("ReducerOptions", {"keepDims": keep}))
    case("SUM int", [np.arange(12).reshape(3, 4).astype(I32), c([0], I32)], ("ReducerOptions", {}), dtypes=(I32,))
    for kind in ("REDUCE_ANY", "REDUCE_ALL"):
        case(kind, [x > 0, c([1], I32)], ("ReducerOptions", {}), dtypes=(bool,))
    for kind, table in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
        for axis, number, dtype in ((1, 2, I32), (-1, 4, np.int64)):
            ties = np.round(x)
            case(f"{kind} {axis}", [ties, c(axis, I32)], (table, {"outputType": number}), dtypes=(dtype,))
    for exclusive in (False, True):
        how = ("CumsumOptions", {"exclusive": exclusive, "reverse": True})
        case(f"CUMSUM reverse {exclusive}", [x, c(1, I32)], how)
        case(f"CUMSUM {exclusive}", [x, c(-1, I32)], ("CumsumOptions", {"exclusive": exclusive}))
    case("TOPK_V2", [x, c(3, I32)], ("TopKV2Options", {}), dtypes=(F, I32))
    case("L2_NORMALIZATION", [noise(2, 3, 4, 5)], ("L2NormOptions", {}))
    how = ("LocalResponseNormalizationOptions", {"radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.6})
    case("LOCAL_RESPONSE_NORMALIZATION", [noise(2, 3, 4, 7)], how)


def shapes():
    x = noise(2, 3, 4)
    case("RESHAPE", [x, c([4, -1], I32)], ("ReshapeOptions", {"newShape": [4, 6]}))
    case("RESHAPE option", [x], ("ReshapeOptions", {"newShape": [-1, 8]}))
    case("RESHAPE scalar", [noise(1)], ("ReshapeOptions", {"newShape": [0]}))
    case("SQUEEZE", [noise(1, 3, 1, 4)], ("SqueezeOptions", {"squeezeDims": [0, -2]}))
    case("SQUEEZE all", [noise(1, 3, 1, 4)], ("SqueezeOptions", {}))
    case("EXPAND_DIMS", [x, c(-1, I32)], ("ExpandDimsOptions", {}))
    case("TRANSPOSE", [x, c([2, 0, 1], I32)], ("TransposeOptions", {}))
    case("TILE", [x, c([2, 1, 3], I32)], ("TileOptions", {}))
    case("FILL", [c([2, 3], I32), np.array(1.5, F)], ("FillOptions", {}))
    case("BROADCAST_TO", [noise(3, 1), c([2, 3, 4], I32)], ("BroadcastToOptions", {}), version=2)
    case("RANGE", [c(1, I32), c(9, I32), c(3, I32)], ("RangeOptions", {}), dtypes=(I32,))
    case("RANK", [x], ("RankOptions", {}), dtypes=(I32,))
    for number, dtype in ((2, I32), (4, np.int64)):
        case(f"SHAPE {number}", [x], ("ShapeOptions", {"outType": number}), dtypes=(dtype,))
    pads = c([[1, 0], [0, 2], [1, 1]], I32)
    case("PAD", [x, pads], ("PadOptions", {}))
    case("PADV2", [x, pads, c(2.5, F)], ("PadV2Options", {}))
    case("MIRROR_PAD reflect", [x, pads], ("MirrorPadOptions", {"mode": 0}))
    case("MIRROR_PAD symmetric", [x, pads], ("MirrorPadOptions", {"mode": 1}))
    case("REVERSE_V2", [x, c([1], I32)], ("ReverseV2Options", {}))
    how = ("ReverseSequenceOptions", {"seqDim": 1, "batchDim": 0})
    case("REVERSE_SEQUENCE", [x, c([2, 3], I32)], how)
    case("SLICE", [x, c([0, 1, 2], I32), c([-1, 2, 1], I32)], ("SliceOptions", {}), shape=(2, 2, 1))
    for title, begin, end, step, masks in (
        ("plain", [0, 1, 0], [2, 3, 4], [1, 1, 2], {}),
        ("masks", [0, 1, 0], [1, 9, 0], [1, 1, 1], {"beginMask": 1, "endMask": 4}),
        ("negative", [0, -1, 3], [2, -4, 0], [1, -1, -2], {}),
        ("shrink", [1, 0, -1], [2, 3, 0], [1, 1, 1], {"shrinkAxisMask": 5}),
        ("new axis", [0, 0, 1], [0, 2, 2], [1, 1, 1], {"newAxisMask": 1}),
        ("ellipsis", [0, 1], [0, 3], [1, 1], {"ellipsisMask": 1}),
    ):
        given = [x, c(begin, I32), c(end, I32), c(step, I32)]
        case(f"STRIDED_SLICE {title}", given, ("StridedSliceOptions", masks), version=4)
    case("SPLIT", [c(-1, I32), x], ("SplitOptions", {"numSplits": 2}), dtypes=(F, F))
    case("SPLIT_V", [x, c([1, -1], I32), c(2, I32)], ("SplitVOptions", {"numSplits": 2}), dtypes=(F, F))
    case("PACK", [x, x + F(1)], ("PackOptions", {"valuesCount": 2, "axis": -1}))
    case("UNPACK", [x], ("UnpackOptions", {"num": 3, "axis": 1}), dtypes=(F,) * 3)
    case("CONCATENATION", [x, noise(2, 1, 4)], ("ConcatenationOptions", {"axis": 1}))
    case("CONCATENATION last", [x, c(noise(2, 3, 1))], ("ConcatenationOptions", {"axis": -1}))
    case("GATHER", [x, np.array([[2, 0], [1, 1]], I32)], ("GatherOptions", {"axis": 1}))
    case(
        "GATHER batches",
        [x, np.array([[2, 0], [1, 1]], I32)],
        ("GatherOptions", {"axis": -2, "batchDims": 1}),
        version=5,
    )
    case("GATHER_ND", [x, np.array([[1, 2], [0, 1]], I32)], ("GatherNdOptions", {}))
    case("ONE_HOT", [np.array([0, 2, 5], I32), c(4, I32), c(2.0, F), c(-1.0, F)], ("OneHotOptions", {"axis": -1}))
    case("WHERE", [x > 0], ("WhereOptions", {}), dtypes=(np.int64,))


def detections():
    random = np.random.default_rng(7)
    anchors = np.concatenate([random.uniform(0.1, 0.9, (40, 2)), random.uniform(0.2, 0.5, (40, 2))], 1).astype(F)
    boxes, scores = noise(1, 40, 4), random.permutation(40 * 4).reshape(1, 40, 4).astype(F) / 160
    how = {"max_detections": 6, "max_classes_per_detection": 1, "nms_score_threshold": 0.25, "num_classes": 3}
    how |= {"nms_iou_threshold": 0.4, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
    for title, more in (
        ("fast", {}),
        ("two classes", {"max_classes_per_detection": 2, "num_classes": 4, "_output_quantized": True}),
        ("few", {"nms_score_threshold": 0.97, "max_detections": 50}),
        ("regular", {"use_regular_nms": True, "detections_per_class": 3}),
        ("regular many", {"use_regular_nms": True, "max_detections": 90, "num_classes": 4}),
    ):
        name = f"TFLite_Detection_PostProcess {title}"
        case(name, [boxes, scores, c(anchors)], {**how, **more}, dtypes=(F,) * 4)
        outputs = CASES[-1]["outputs"]
        used = int(outputs["out3"][0]) * {**how, **more}["max_classes_per_detection"]
        for i in range(3):  # the interpreter leaves the rest as it was
            outputs[f"out{i}"][:, used:] = 0


def special():
    """Return the models that test_reader.py reads, by name: a custom operator, an open size, and refused ones."""
    x, b = noise(2, 1, 4, 5), c(noise(3, 1, 5, seed=1))

    def add(change, given=x, options=None, version=1):
        stored = model("ADD", [given, b], options or ("AddOptions", {}), [((2, 3, 4, 5), F)], version, change)
        return np.frombuffer(stored, np.uint8)

    def on_tensor(index, **values):
        def change(whole, graph, step):
            for name, value in values.items():
                setattr(graph.tensors[index], name, value)

        return add(change)

    def on_code(**values):
        return add(lambda whole, graph, step: [setattr(whole.operatorCodes[0], *item) for item in values.items()])

    def custom(whole, graph, step):
        code = whole.operatorCodes[0]
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        code.customCode = "Twice"
        step.customOptions = np.array([2, 7], np.uint8)
        step.builtinOptionsType, step.builtinOptions = 0, None

    def quantized(index, number, **fields):
        quantization = schema.QuantizationParametersT()
        quantization.scale, quantization.zeroPoint = [0.5], [3]
        for name, value in fields.items():
            setattr(quantization, name, value)
        return on_tensor(index, type=number, quantization=quantization)

    sparsity = schema.SparsityParametersT()
    stored = model("ADD", [noise(2, 3)], ("AddOptions", {}), [((2, 3), F)], 1, custom)
    halves = [((2, 1, 4, 5), F), ((0, 1, 4, 5), F)]

    def with_buffer(whole, graph, step):
        whole.buffers.append(schema.BufferT())
        graph.tensors[-1].buffer = len(whole.buffers) - 1

    sizes, options = c([2, 0], I32), ("SplitVOptions", {"numSplits": 2})
    split = model("SPLIT_V", [x, sizes, c(0, I32)], options, halves, change=with_buffer)
    return {
        "empty part": np.frombuffer(split, np.uint8),
        "custom": np.frombuffer(stored, np.uint8),
        "open": on_tensor(0, shapeSignature=[-1, 1, 4, 5]),
        "blocks": quantized(0, 9, detailsType=1, details=schema.CustomQuantizationT()),
        "scales": quantized(0, 9, scale=[1.0, 2.0, 3.0]),
        "zero scale": quantized(0, 9, scale=[0.0]),
        "infinite scale": quantized(0, 9, scale=[np.inf]),
        "zero points": quantized(0, 9, zeroPoint=[1, 2]),
        "large zero point": quantized(0, 9, zeroPoint=[128]),
        "int4": quantized(0, 17),
        "float with scale": quantized(0, 0),
        "no scale": on_tensor(0, type=9),
        "no output scale": on_tensor(2, type=9),
        "uint32": on_tensor(0, type=15),
        "variable": on_tensor(0, isVariable=True),
        "sparse": on_tensor(1, sparsity=sparsity),
        "version": on_code(version=99),
        "two subgraphs": add(lambda whole, graph, step: whole.subgraphs.append(graph)),
        "named as builtin": on_code(builtinCode=32, deprecatedBuiltinCode=32, customCode="ADD"),
        "unknown number": on_code(builtinCode=300, deprecatedBuiltinCode=127),
        "unproduced": add(lambda whole, graph, step: graph.inputs.clear()),
        "short constant": add(lambda whole, graph, step: setattr(whole.buffers[1], "data", np.zeros(4, np.uint8))),
        "tanh": add(None, options=("AddOptions", {"fusedActivationFunction": 4})),
        "dtypes": add(None, given=x.astype(I32)),
    }


def save(name, cases):
    """Write cases to a file: `index` and `data`."""
    index, parts, at = [], [], 0

    def add(content):
        nonlocal at
        parts.append(content)
        at += len(content)
        return [at - len(content), at]

    for one in cases:
        entry = {"name": one["name"], "model": add(one["model"])}
        for group in ("inputs", "outputs"):
            entry[group] = {n: [list(v.shape), v.dtype.str, *add(v.tobytes())] for n, v in one[group].items()}
        index.append(entry)
    stored = {"index": np.frombuffer(json.dumps(index).encode(), np.uint8),
              "data": np.frombuffer(b"".join(parts), np.uint8)}  # fmt: skip
    np.savez_compressed(Path(__file__).with_name(name), **stored)
    print(f"{len(cases)} cases of {len({one['name'].split()[0] for one in cases})} operators")


def main():
    for make in (windows, elements, reductions, shapes, detections):
        make()
    save("operators.npz", CASES)
    np.savez_compressed(Path(__file__).with_name("special.npz"), **special())


if __name__ == "__main__":
    main()
