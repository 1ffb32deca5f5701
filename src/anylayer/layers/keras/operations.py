"""Calls of keras.ops in functional models: the layer types ops.Add, ops.Mean, ops.GetItem and so on."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.keras import _activations as act
from anylayer.layers.keras import _functions as f
from anylayer.layers.keras._called import Function, define_calls

_ONE_TO_ONE: dict[str, Function] = {
    "Absolute": np.abs,
    "Abs": np.abs,
    "Negative": np.negative,
    "Exp": np.exp,
    "Expm1": np.expm1,
    "Log": np.log,
    "Log1p": np.log1p,
    "Log2": np.log2,
    "Log10": np.log10,
    "Sqrt": np.sqrt,
    "Rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "Square": lambda x: x * x,
    "Reciprocal": lambda x: np.float32(1) / x,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Arcsin": np.arcsin,
    "Arccos": np.arccos,
    "Arctan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Tanh": np.tanh,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Trunc": np.trunc,
    "Round": lambda x, decimals=0: np.round(x, decimals),
    "Sign": np.sign,
    "Erf": lambda x: ops.erf(x),
    "LogicalNot": np.logical_not,
    "Isfinite": np.isfinite,
    "Copy": lambda x: x,
    "StopGradient": lambda variable: variable,
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
    "Divide": np.divide,
    "TrueDivide": np.divide,
    "FloorDivide": np.floor_divide,
    "Mod": np.mod,
    "Power": np.power,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "LogicalAnd": np.logical_and,
    "LogicalOr": np.logical_or,
    "LogicalXor": np.logical_xor,
    "Where": np.where,
    "Clip": lambda x, x_min, x_max: np.clip(x, x_min, x_max),
    "Cast": f.cast,
    "Relu": act.relu,
    "Relu6": act.relu6,
    "Sigmoid": lambda x: ops.sigmoid(x),
    "Softplus": lambda x: ops.softplus(x),
    "Softsign": act.softsign,
    "Silu": act.silu,
    "LogSigmoid": act.log_sigmoid,
    "LeakyRelu": act.leaky_relu,
    "HardSigmoid": act.hard_sigmoid,
    "HardSilu": act.hard_silu,
    "HardTanh": act.hard_tanh,
    "Elu": act.elu,
    "Selu": act.selu,
    "Celu": act.celu,
    "Gelu": lambda x, approximate=True: act.gelu(x, approximate),
    "Glu": act.glu,
    "Squareplus": act.squareplus,
    "TanhShrink": act.tanh_shrink,
    "SoftShrink": act.soft_shrink,
    "HardShrink": act.hard_shrink,
    "Softmax": act.softmax,
    "LogSoftmax": act.log_softmax,
}


def _reduction(function: Any) -> Function:
    return lambda x, axis=None, keepdims=False: function(x, axis=f.axes(axis), keepdims=keepdims)


def _argument(function: Any) -> Function:
    return lambda x, axis=None, keepdims=False: function(x, axis=axis, keepdims=keepdims).astype(np.int32)


_REDUCTIONS: dict[str, Function] = {
    **{
        name: _reduction(getattr(np, name.lower())) for name in ("Sum", "Mean", "Max", "Min", "Prod", "Var", "Std")
    },
    "Amax": _reduction(np.max),
    "Amin": _reduction(np.min),
    "All": _reduction(np.all),
    "Any": _reduction(np.any),
    "Argmax": _argument(np.argmax),
    "Argmin": _argument(np.argmin),
    "Logsumexp": f.logsumexp,
    "Normalize": f.normalize,
}

_SHAPING: dict[str, Function] = {
    "GetItem": f.get_item,
    "Reshape": f.reshape,
    "Ravel": lambda x: x.reshape(-1),
    "Transpose": lambda x, axes=None: np.transpose(x, axes),
    "Swapaxes": lambda x, axis1, axis2: np.swapaxes(x, axis1, axis2),
    "Moveaxis": lambda x, source, destination: np.moveaxis(x, f.axes(source), f.axes(destination)),
    "Squeeze": lambda x, axis=None: np.squeeze(x, f.axes(axis)),
    "ExpandDims": lambda x, axis: np.expand_dims(x, f.axes(axis)),
    "Concatenate": lambda xs, axis=0: np.concatenate(xs, axis=axis),
    "Stack": lambda x, axis=0: np.stack(x, axis=axis),
    "Split": f.split,
    "Unstack": f.unstack,
    "Flip": lambda x, axis=None: np.flip(x, f.axes(axis)),
    "Repeat": lambda x, repeats, axis=None: np.repeat(x, repeats, axis=axis),
    "Tile": lambda x, repeats: np.tile(x, repeats),
    "Pad": f.pad,
    "Roll": lambda x, shift, axis=None: np.roll(x, shift, axis),
    "BroadcastTo": lambda x, shape: np.broadcast_to(x, tuple(shape)),
    "Take": f.take,
    "OneHot": f.one_hot,
    "Tril": lambda x, k=0: np.tril(x, k),
    "Triu": lambda x, k=0: np.triu(x, k),
    "OnesLike": lambda x, dtype=None: np.ones_like(x),
    "ZerosLike": lambda x, dtype=None: np.zeros_like(x),
}

_PRODUCTS: dict[str, Function] = {
    "Matmul": np.matmul,
    "Dot": np.dot,
    "Einsum": lambda *args, subscripts="": np.einsum(subscripts, *args),
    "Tensordot": lambda x1, x2, axes=2: np.tensordot(x1, x2, axes),
    "Outer": lambda x1, x2: x1.reshape(-1)[:, None] * x2.reshape(-1)[None],
    "DotProductAttention": f.dot_product_attention,
    "MaxPool": f.pool,
    "AveragePool": lambda inputs, **given: f.pool(inputs, kind="average", **given),
    "Resize": f.resize,
    "DepthToSpace": f.depth_to_space,
    "SpaceToDepth": f.space_to_depth,
}

_IGNORED = frozenset({"flash_attention", "sparse"})
_ALL = {**_ONE_TO_ONE, **_REDUCTIONS, **_SHAPING, **_PRODUCTS}

define_calls("ops", _ALL, __name__, _IGNORED, "the operation {} of keras/src/ops")
