"""Operators of the domain com.microsoft that ONNX Runtime fuses from standard ones in an optimized model.

Source: ONNX Runtime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, need
from anylayer.layer import Layer, attribute, layer
from anylayer.layers._table import computes, define, operators, row
from anylayer.layers.onnx._call import OpCall
from anylayer.layers.onnx._windows import convolution, explicit
from anylayer.network import Array


def activate(name: str, params: Sequence[float], y: Array) -> Any:
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


@layer("com.microsoft.FusedConv")
class FusedConv(Layer):
    """Compute activation(conv(x, w, b) + z).

    x (N, C, ...), w (M, C / group, ...), b (M,) and z of the shape of the output (N, M, ...); b and z are
    optional.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.FusedConv.
    """

    message = "attribute"
    kernel_shape: tuple[int, ...] = attribute("int64", (), repeated=True)
    strides: tuple[int, ...] = attribute("int64", (), repeated=True)
    dilations: tuple[int, ...] = attribute("int64", (), repeated=True)
    pads: tuple[int, ...] = attribute("int64", (), repeated=True)
    auto_pad: str = attribute("string", "NOTSET")
    group: int = attribute("int64", 1)
    activation: str = attribute("string", "")
    activation_params: tuple[float, ...] = attribute("float", (), repeated=True)

    def forward(self, x: Array, w: Array, b: Array | None = None, z: Array | None = None) -> Any:
        names = ("kernel_shape", "strides", "dilations", "pads", "auto_pad", "group")
        call = OpCall("Conv", 18, [x, w], {name: getattr(self, name) or None for name in names})
        explicit(call)
        y = convolution(call, x, w, b)
        return activate(self.activation, self.activation_params, y if z is None else y + z)


@layer("com.microsoft.FusedGemm")
class FusedGemm(Layer):
    """Compute activation(alpha * A @ B + beta * C), A and B optionally transposed.

    (M, K) and (K, N) to (M, N); C broadcasts to the output.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.FusedGemm.
    """

    message = "attribute"
    alpha: float = attribute("float", 1.0)
    beta: float = attribute("float", 1.0)
    transA: int = attribute("int64", 0)
    transB: int = attribute("int64", 0)
    activation: str = attribute("string", "")
    activation_alpha: float = attribute("float", 0.0)
    activation_beta: float = attribute("float", 0.0)

    def forward(self, a: Array, b: Array, c: Array | None = None) -> Any:
        y = (a.T if self.transA else a) @ (b.T if self.transB else b)
        y = y * y.dtype.type(self.alpha)
        y = y if c is None else y + c * c.dtype.type(self.beta)
        return activate(self.activation, (self.activation_alpha, self.activation_beta), y)


def _matmul(a: Array, b: Array, alpha: float, transA: int, transB: int, transBatchA: int, transBatchB: int) -> Any:
    need(not transBatchA and not transBatchB, "transposed batch axes are not supported")
    a = a.swapaxes(-1, -2) if transA and len(a.shape) > 1 else a
    b = b.swapaxes(-1, -2) if transB and len(b.shape) > 1 else b
    return (a @ b) * a.dtype.type(alpha)


class _Fused(Layer):
    """A function of its inputs and attributes."""

    message = "attribute"


_FLAG = attribute("int64", 0)

operators(
    _Fused,
    "Source: ONNX Runtime, docs/ContribOperators.md, {}.",
    {
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
