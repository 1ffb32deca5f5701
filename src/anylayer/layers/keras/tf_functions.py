"""Calls of TensorFlow in functional models of Keras 2 (TFOpLambda): the layer types tf.math.add and so on."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.keras import _activations as act
from anylayer.layers.keras import _functions as f
from anylayer.layers.keras._called import Function, define_calls


def _two(function: Any) -> Function:
    return lambda x, y: function(x, y)


def _reduction(function: Any) -> Function:
    return lambda input_tensor, axis=None, keepdims=False: function(
        input_tensor, axis=f.axes(axis), keepdims=keepdims
    )


_OPERATORS: dict[str, Function] = {
    **{name: _two(np.add) for name in ("math.add", "__operators__.add", "math.add_n")},
    **{name: _two(np.subtract) for name in ("math.subtract", "__operators__.sub")},
    **{name: _two(np.multiply) for name in ("math.multiply", "__operators__.mul")},
    **{name: _two(np.divide) for name in ("math.truediv", "math.divide", "__operators__.truediv")},
    **{name: _two(np.power) for name in ("math.pow", "__operators__.pow")},
    **{name: _two(np.floor_divide) for name in ("math.floordiv", "__operators__.floordiv")},
    "__operators__.rsub": lambda y, x: np.subtract(x, y),
    "__operators__.radd": lambda y, x: np.add(x, y),
    "__operators__.rmul": lambda y, x: np.multiply(x, y),
    "__operators__.rtruediv": lambda y, x: np.divide(x, y),
    "__operators__.neg": lambda x: -x,
    "__operators__.getitem": lambda tensor, slice_spec: f.get_item(tensor, slice_spec),
    "math.maximum": _two(np.maximum),
    "math.minimum": _two(np.minimum),
    "math.negative": lambda x: -x,
    "math.abs": np.abs,
    "math.exp": lambda x: np.exp(x),
    "math.log": lambda x: np.log(x),
    "math.sqrt": lambda x: np.sqrt(x),
    "math.rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "math.square": lambda x: x * x,
    "math.sign": lambda x: np.sign(x),
    "math.floor": lambda x: np.floor(x),
    "math.ceil": lambda x: np.ceil(x),
    "math.sin": lambda x: np.sin(x),
    "math.cos": lambda x: np.cos(x),
    "math.erf": lambda x: ops.erf(x),
    "clip_by_value": lambda t, clip_value_min, clip_value_max: np.clip(t, clip_value_min, clip_value_max),
    "cast": f.cast,
    "identity": lambda input: input,
    "stop_gradient": lambda input: input,
}

_ACTIVATIONS: dict[str, Function] = {
    "nn.relu": lambda features: ops.relu(features),
    "nn.relu6": lambda features: act.relu6(features),
    "nn.elu": lambda features: act.elu(features),
    "nn.selu": lambda features: act.selu(features),
    "nn.leaky_relu": lambda features, alpha=0.2: act.leaky_relu(features, alpha),
    "nn.gelu": lambda features, approximate=False: act.gelu(features, approximate),
    **{name: lambda features, beta=1.0: _swish(features, beta) for name in ("nn.silu", "nn.swish")},
    **{name: lambda x: ops.sigmoid(x) for name in ("math.sigmoid", "nn.sigmoid")},
    **{name: lambda x: np.tanh(x) for name in ("math.tanh", "nn.tanh")},
    **{name: lambda features: ops.softplus(features) for name in ("math.softplus", "nn.softplus")},
    **{
        name: lambda logits, axis=-1: act.softmax(logits, -1 if axis is None else axis)
        for name in ("nn.softmax", "math.softmax")
    },
    "nn.log_softmax": lambda logits, axis=-1: act.log_softmax(logits, -1 if axis is None else axis),
}


def _swish(x: Any, beta: float) -> Any:
    return x * ops.sigmoid(x if beta == 1 else np.float32(beta) * x)


_SHAPING: dict[str, Function] = {
    **{
        f"math.reduce_{name}": _reduction(getattr(np, name))
        for name in ("mean", "sum", "max", "min", "prod", "all", "any")
    },
    "math.argmax": lambda input, axis=0, output_type="int64": np.argmax(input, axis=axis).astype(output_type),
    "math.l2_normalize": f.l2_normalize,
    "nn.l2_normalize": f.l2_normalize,
    "concat": lambda values, axis: np.concatenate(values, axis=axis),
    "stack": lambda values, axis=0: np.stack(values, axis=axis),
    "unstack": lambda value, num=None, axis=0: f.unstack(value, num, axis),
    "split": f.split_sizes,
    "reshape": lambda tensor, shape: f.reshape(tensor, shape),
    **{
        name: lambda a, perm=None, conjugate=False: np.transpose(a, perm)
        for name in ("transpose", "compat.v1.transpose")
    },
    "expand_dims": lambda input, axis: np.expand_dims(input, axis),
    **{
        name: lambda input, axis=None: np.squeeze(input, f.axes(axis)) for name in ("squeeze", "compat.v1.squeeze")
    },
    "tile": lambda input, multiples: np.tile(input, multiples),
    **{
        name: lambda tensor, paddings, mode="CONSTANT", constant_values=0: f.pad(
            tensor, paddings, mode, constant_values
        )
        for name in ("pad", "compat.v1.pad")
    },
    "reverse": lambda tensor, axis: np.flip(tensor, f.axes(axis)),
    "image.resize": lambda images, size, method="bilinear", antialias=False, preserve_aspect_ratio=False: f.resize(
        images, size, method, antialias, crop_to_aspect_ratio=preserve_aspect_ratio
    ),
    "nn.depth_to_space": lambda input, block_size, data_format="NHWC": f.depth_to_space(
        input, block_size, data_format
    ),
    "nn.space_to_depth": lambda input, block_size, data_format="NHWC": f.space_to_depth(
        input, block_size, data_format
    ),
    "linalg.matmul": lambda a, b, transpose_a=False, transpose_b=False: _matmul(a, b, transpose_a, transpose_b),
    "one_hot": lambda indices, depth, axis=-1: f.one_hot(indices, depth, -1 if axis is None else axis),
}


def _matmul(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    return (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)


_ALL = {**_OPERATORS, **_ACTIVATIONS, **_SHAPING}

define_calls("tf", _ALL, __name__, frozenset(), "the function tf.{} of TensorFlow 2")
