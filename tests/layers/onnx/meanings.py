"""python -m tests.layers.onnx.meanings: list the operators of ONNX with a NumPy meaning of their own, and why.

Without a meaning of its own, an operator is computed by onnx.reference and recorded as itself. For the reason
"slow" the command measures how many times longer onnx.reference takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from onnx import defs

from anylayer.compile.open import trace_open
from anylayer.errors import AnyLayerError
from anylayer.graph.open_sizes import parse_sizes
from anylayer.layer import Registry
from anylayer.layers.onnx import standard as standard  # registers the meanings
from anylayer.layers.onnx._call import _UNSUPPORTED_BY_ENGINES, MEANINGS, REPLACED, has_rare_dtype
from anylayer.network import Array, Node, TensorType
from tests.layers.open_samples import Sample

WHY = {
    "sizes": "without it, open sizes are refused, or the conditions on them are not found",
    "dtypes": "it is recorded as other operators for dtypes that an engine lacks or computes differently",
    "recorded": "engines lack it, and it is always recorded as the operators of its meaning",
    "shapes": "the result needs only the shape of the input, or is the input",
    "memory": "it refuses outputs above the limit",
    "wrong": "onnx.reference refuses what the operator allows, allows what it refuses, or returns another result",
    "slow": "onnx.reference takes more than 1.5 times as long",
    "casts": "casts of floats to small integers outside their range depend on the processor in onnx.reference",
}
"""What each reason means. An operator is listed with the first that applies."""
REASONS = {
    "sizes": "Add And AveragePool BatchNormalization BitwiseAnd BitwiseOr BitwiseXor Concat Conv "
    "ConvTranspose DepthToSpace Div Einsum Equal Flatten Gather GatherElements GatherND Greater GreaterOrEqual "
    "Less LessOrEqual LpPool MatMulInteger Max MaxPool Mean MeanVarianceNormalization Min Mod Mul Or "
    "PRelu Pad Pow QLinearMatMul ScatterElements ScatterND Slice SpaceToDepth Sub Sum Tile TopK Where Xor",
    "dtypes": "Abs Clip Neg ReduceL1 ReduceMax ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Shrink",
    "recorded": "AffineGrid LinearAttention",
    "shapes": "Dropout Identity Shape Size",
    "memory": "ConstantOfShape Expand OneHot Range",
    "wrong": "DeformConv DequantizeLinear DynamicQuantizeLinear GRU GlobalAveragePool GlobalLpPool "
    "GlobalMaxPool GroupNormalization LRN LSTM LpNormalization MaxRoiPool NonMaxSuppression QuantizeLinear RNN "
    "ReduceMean Softsign Split",
    "slow": "Col2Im ConvInteger Erf Gelu GridSample HardSwish LogSoftmax MaxUnpool Mish QLinearConv Reciprocal "
    "Reshape Resize RoiAlign Round Sigmoid Softplus Squeeze Transpose Unsqueeze",
    "casts": "Cast CastLike",
}

_rng = np.random.default_rng(0)
X, SMALL = _rng.random((4, 64, 56, 56), np.float32), _rng.random((1, 8, 16, 16), np.float32)
_BYTES = (SMALL * 255).astype(np.uint8)
_WEIGHTS = _BYTES[:, :, :3, :3].repeat(8, 0)
_f, _ints = np.float32, np.int64
_SCALES = (_f(0.1), np.uint8(3))
_BOXES = _rng.random((1, 4, 4), np.float32)


def _recurrent(gates: int) -> list[Array]:
    shapes = ((3, 2, 4), (1, gates * 5, 4), (1, gates * 5, 5))
    return [_rng.random(s, np.float32) for s in shapes]


Call = tuple[Sequence[Any], dict[str, Any]]
WRONG: dict[str, Call] = {
    "DeformConv": ([SMALL[:, :1, :1, :1], SMALL[:, :1, :1, :1], SMALL[:, :2, :1, :1]], {}),
    "DequantizeLinear": ([_BYTES, *_SCALES], {}),
    "DynamicQuantizeLinear": ([np.zeros(0, np.float32)], {}),
    "GRU": (_recurrent(3), {"hidden_size": 5, "clip": 0.2}),
    "GlobalAveragePool": ([X[:0]], {}),
    "GlobalLpPool": ([SMALL], {}),
    "GlobalMaxPool": ([SMALL[0]], {}),
    "GroupNormalization": ([SMALL, np.ones(8, np.float32), np.ones(8, np.float32)], {"num_groups": 2}),
    "LRN": ([SMALL[0]], {"size": 3}),
    "LSTM": (_recurrent(4), {"hidden_size": 5, "clip": 0.2}),
    "LpNormalization": ([-SMALL], {"p": 1}),
    "MaxRoiPool": ([SMALL, _f([[0, 1, 1, 9, 9]])], {"pooled_shape": [4, 4]}),
    "NonMaxSuppression": ([_BOXES, _BOXES[:, :1], _ints([5])], {}),
    "QuantizeLinear": ([_f([np.inf, 1e30]), *_SCALES], {}),
    "RNN": (_recurrent(1), {"hidden_size": 5, "activations": ["Relu"]}),
    "ReduceMean": ([np.full((40000, 2), 10, np.float16), _ints([0])], {}),
    "Softsign": ([_f(0.5)], {}),
    "Split": ([X, _ints([32, 16])], {"axis": 1}),  # these are not all of the 64 channels
}
"""Inputs and attributes for which onnx.reference is wrong."""
LARGE: dict[str, Call] = {
    **{op: ([X], {}) for op in ("Erf", "HardSwish", "LogSoftmax", "Mish", "Reciprocal", "Round")},
    **{op: ([X], {}) for op in ("Gelu", "Sigmoid", "Softplus", "Transpose")},
    "ConvInteger": ([_BYTES, _WEIGHTS], {}),
    "GridSample": ([SMALL, _rng.random((1, 16, 16, 2), np.float32)], {}),
    "MaxUnpool": ([SMALL, np.arange(2048).reshape(SMALL.shape)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "QLinearConv": ([_BYTES, *_SCALES, _WEIGHTS, *_SCALES, *_SCALES], {}),
    "Col2Im": ([X[:1].reshape(1, 64, -1)[:, :36, :324], _ints([20, 20]), _ints([3, 3])], {}),
    "Reshape": ([X, _ints([4, -1])], {}),
    "Resize": ([SMALL, None, _f([1, 1, 2, 2])], {"mode": "linear"}),
    "RoiAlign": ([SMALL, _f([[1, 1, 9, 9]]), _ints([0])], {"output_height": 4, "output_width": 4}),
    "Squeeze": ([X[:1]], {}),
    "Unsqueeze": ([X, _ints([0])], {}),
}
"""Inputs and attributes for which onnx.reference takes longer."""


@contextmanager
def without(op: str) -> Iterator[None]:
    """Remove the meaning of an operator for a while."""
    own = MEANINGS.pop(op)
    try:
        yield
    finally:
        MEANINGS[op] = own


def forward_of(op: str, call: Call) -> Callable[[], Array]:
    """Return a function that computes the first output for the inputs of a call."""
    inputs, attrs = call
    cls = Registry.of("onnx").find(op)[0].cls
    layer = cls.__new__(cls)
    outputs = ["y", "z"] if op == "Split" else ["y"]
    node = Node(op, op, [f"i{i}" for i in range(len(inputs))], outputs, params={"attribute": attrs})
    node.version = {"GroupNormalization": 21, "Gelu": 20, "DeformConv": 19}.get(op, 18)
    layer.prepare(node, None)
    return lambda: np.asarray(layer.forward(*inputs)[0])


def conditions(case: Sample) -> str | None:
    """Return the conditions on the sizes of a case where each has a name of its own, None where it is refused."""
    shapes = {
        n: [f"{n}_{i}" if d > 1 else d for i, d in enumerate(x.shape)] for n, x in zip(case.names, case.inputs)
    }
    sizes, network = parse_sizes(shapes), case.net.network
    if sizes is None:
        return None
    types = {n: TensorType.of(x.shape, x.dtype) for n, x in zip(case.names, case.inputs)}
    try:
        traces = trace_open(network, case.net.definitions, types, sizes, network.outputs)
        traces.source()
    except AnyLayerError:
        return None
    return ", ".join(map(str, traces.sizes.guards))


def needs_sizes(op: str, cases: Sequence[Sample]) -> bool:
    """Return whether open sizes are refused, or have other conditions, without the meaning of an operator."""
    for case in reversed(cases):  # the smallest first
        own = conditions(case)
        with without(op):
            if conditions(case) != own:
                return True
    return False


def has_other_dtypes(op: str) -> bool:
    """Return whether an operator is recorded as others, and allows dtypes for which it is."""
    allowed = {kind for formal in defs.get_schema(op).inputs for kind in formal.types}
    return REPLACED.get(op) is has_rare_dtype and any(
        f"tensor({name})" in allowed for name in _UNSUPPORTED_BY_ENGINES
    )


def result_of(forward: Callable[[], Array]) -> Array | None:
    """Return the result of a function, None where it refuses its inputs."""
    try:
        return forward()
    except AnyLayerError:
        return None


def differs(op: str) -> bool:
    """Return whether onnx.reference is wrong for the call in WRONG."""
    forward = forward_of(op, WRONG[op])
    own = result_of(forward)
    with without(op):
        found = result_of(forward)
    if own is None or found is None:
        return own is not found
    return own.shape != found.shape or not np.allclose(own, found, 1e-2)


def _seconds(function: Callable[[], Any]) -> float:
    times = []
    for _ in range(20):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def slowdown(op: str) -> float:
    """Return how many times longer onnx.reference takes for the call in LARGE."""
    forward = forward_of(op, LARGE[op])
    own = _seconds(forward)
    with without(op):
        return _seconds(forward) / own


def main() -> None:
    for reason, names in REASONS.items():
        print(f"{reason}: {WHY[reason]}")
        for op in names.split():
            print(f"  {op}" + (f", {slowdown(op):.1f} times" if reason == "slow" else ""))
    print(f"{len(MEANINGS)} operators have a meaning of their own, {len(Registry.of('onnx').types())} are defined")


if __name__ == "__main__":
    main()
