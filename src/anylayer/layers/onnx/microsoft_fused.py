"""Operators of the domain com.microsoft that ONNX Runtime fuses from standard ones in an optimized model.

Source: ONNX Runtime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, need
from anylayer.layer import Layer, attribute
from anylayer.layers._table import computes, define, operators, row
from anylayer.layers.onnx._call import OpCall
from anylayer.layers.onnx._windows import convolution, explicit
from anylayer.network import Array


def activate(name: str, params: Sequence[float], y: Array) -> Array:
    """Return the activation `name` of `y`, or `y` itself when the name is empty."""
    count = {"LeakyRelu": 1, "HardSigmoid": 2, "Clip": 2}.get(name, 0)
    need(len(params) >= count, f"activation {name} takes {count} params, got {len(params)}")
    if name == "LeakyRelu":
        return ops.leaky_relu(y, params[0])
    if name == "HardSigmoid":
        return ops.hard_sigmoid(y, params[0], params[1])
    if name == "Clip":
        return np.clip(y, y.dtype.type(params[0]), y.dtype.type(params[1]))
    functions: dict[str, Any] = {"": lambda v: v, "Relu": ops.relu, "Tanh": np.tanh, "Sigmoid": ops.sigmoid}
    if name not in functions:
        raise LayerError(f"activation must be one of {', '.join(filter(None, functions))}, got '{name}'")
    return functions[name](y)


def _conv(
    x: Array, w: Array, b: Array | None = None, z: Array | None = None,
    *, activation: str, activation_params: Sequence[float], **window: Any,
) -> Array:  # fmt: skip
    call = OpCall("Conv", 18, [x, w], {name: value or None for name, value in window.items()})
    explicit(call)
    y = convolution(call, x, w, b)
    return activate(activation, activation_params, y if z is None else y + z)


def _gemm(
    a: Array, b: Array, c: Array | None = None, *, alpha: float, beta: float, transA: int, transB: int,
    activation: str, activation_alpha: float, activation_beta: float,
) -> Array:  # fmt: skip
    y = (a.T if transA else a) @ (b.T if transB else b)
    y = y * y.dtype.type(alpha)
    y = y if c is None else y + c * c.dtype.type(beta)
    return activate(activation, (activation_alpha, activation_beta), y)


def _matmul(
    a: Array, b: Array, alpha: float, transA: int, transB: int, transBatchA: int, transBatchB: int
) -> Array:
    need(not transBatchA and not transBatchB, "transposed batch axes are not supported")
    a = a.swapaxes(-1, -2) if transA and len(a.shape) > 1 else a
    b = b.swapaxes(-1, -2) if transB and len(b.shape) > 1 else b
    return (a @ b) * a.dtype.type(alpha)


class _Fused(Layer):
    """A function of its inputs and attributes."""

    message = "attribute"


_FLAG, _INTS = attribute("int64", 0), attribute("int64", (), repeated=True)

operators(
    _Fused,
    "Source: ONNX Runtime, docs/ContribOperators.md, {}.",
    {
        "com.microsoft.FusedConv": row("Compute activation(conv(x, w, b) + z).", _conv,
            details="x (N, C, ...), w (M, C / group, ...), b (M,) and z of the shape of the output (N, M, ...); b "
            "and z are optional.",
            kernel_shape=_INTS, strides=_INTS, dilations=_INTS, pads=_INTS, auto_pad=attribute("string", "NOTSET"),
            group=attribute("int64", 1), activation=attribute("string", ""),
            activation_params=attribute("float", (), repeated=True)),
        "com.microsoft.FusedGemm": row(
            "Compute activation(alpha * A @ B + beta * C), A and B optionally transposed.", _gemm,
            details="(M, K) and (K, N) to (M, N); C broadcasts to the output.",
            alpha=attribute("float", 1.0), beta=attribute("float", 1.0), transA=_FLAG, transB=_FLAG,
            activation=attribute("string", ""), activation_alpha=attribute("float", 0.0),
            activation_beta=attribute("float", 0.0)),
        "com.microsoft.FusedMatMul": row(
            "Compute alpha * A @ B, the last two axes of A and B optionally transposed.", _matmul,
            details="(..., M, K) and (..., K, N) to (..., M, N).",
            alpha=attribute("float", 1.0), transA=_FLAG, transB=_FLAG, transBatchA=_FLAG, transBatchB=_FLAG),
        "com.microsoft.QuickGelu": row("Compute x * sigmoid(alpha * x) for each element.",
            lambda x, alpha: x * ops.sigmoid(x * x.dtype.type(alpha)), alpha=attribute("float", 1.702)),
        "com.microsoft.Gelu": computes("x * P(X <= x) for each element, with a standard normal X",
            lambda x: ops.gelu(x)),
        "com.microsoft.BiasGelu": computes("Gelu(x + bias)", lambda x, bias: ops.gelu(x + bias)),
        "com.microsoft.FastGelu": computes(
            "the tanh approximation of Gelu for each element of x, or of x + bias with a bias of shape (C,)",
            lambda x, bias=None: ops.gelu(x if bias is None else x + bias, approximate="tanh")),
    },
)  # fmt: skip


class _RefusedLayer(Layer):
    """An operator that is refused by name."""

    message = "attribute"

    def _take(self, target: Any, name: str, node: Any) -> None:
        """Leave the attributes unread."""

    def forward(self, *inputs: Array) -> Any:
        kind = self.type.rpartition(".")[2]
        raise LayerError(
            f"{kind} quantizes values inside the operator, which is not supported. Quantize the network again "
            "without it (nodes_to_exclude, op_types_to_quantize), or give a class for it"
        )


for _name in ("DynamicQuantizeLSTM", "QAttention", "QEmbedLayerNormalization", "QOrderedAttention"):
    define(
        f"com.microsoft.{_name}",
        _RefusedLayer,
        "Refuse the operator, since it quantizes values while it runs.",
        f"Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.{_name}.",
    )
