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
    "Exp2": np.exp2,
    "Expm1": np.expm1,
    "Log": np.log,
    "Log1p": np.log1p,
    "Log2": np.log2,
    "Log10": np.log10,
    "Sqrt": np.sqrt,
    "Rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "Cbrt": np.cbrt,
    "Square": lambda x: x * x,
    "Reciprocal": lambda x: np.float32(1) / x,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Arcsin": np.arcsin,
    "Arccos": np.arccos,
    "Arctan": np.arctan,
    "Arctan2": np.arctan2,
    "Arcsinh": np.arcsinh,
    "Arccosh": np.arccosh,
    "Arctanh": np.arctanh,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Tanh": np.tanh,
    "Floor": lambda x: np.floor(f.cast(x, "float32")),
    "Ceil": lambda x: np.ceil(f.cast(x, "float32")),
    "Trunc": np.trunc,
    "Round": lambda x, decimals=0: np.round(x, decimals),
    "Sign": np.sign,
    "Erf": lambda x: ops.erf(x),
    "LogicalNot": np.logical_not,
    "Isfinite": np.isfinite,
    "Isinf": np.isinf,
    "Isnan": np.isnan,
    "Isposinf": lambda x: x == np.inf,
    "Isneginf": lambda x: x == -np.inf,
    "Isclose": lambda x1, x2, rtol=1e-5, atol=1e-8, equal_nan=False: np.isclose(x1, x2, rtol, atol, equal_nan),
    "NanToNum": lambda x, nan=0.0, posinf=None, neginf=None: np.nan_to_num(
        x, nan=nan, posinf=posinf, neginf=neginf
    ),
    "Fabs": np.fabs,
    "Deg2rad": np.deg2rad,
    "Rad2deg": np.rad2deg,
    "Sinc": np.sinc,
    "Signbit": np.signbit,
    "Copy": lambda x: x,
    "Real": lambda x: x,
    "Conjugate": lambda x: x,
    "StopGradient": lambda variable: variable,
    "ConvertToTensor": f.cast,
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
    "Divide": np.divide,
    "TrueDivide": np.divide,
    "DivideNoNan": f.divide_no_nan,
    "FloorDivide": np.floor_divide,
    "Mod": np.mod,
    "Fmod": np.fmod,
    "Hypot": np.hypot,
    "Heaviside": np.heaviside,
    "Logaddexp": np.logaddexp,
    "Logaddexp2": np.logaddexp2,
    "Power": np.power,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Fmax": np.fmax,
    "Fmin": np.fmin,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "LogicalAnd": np.logical_and,
    "LogicalOr": np.logical_or,
    "LogicalXor": np.logical_xor,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "BitwiseNot": np.invert,
    "BitwiseInvert": np.invert,
    "BitwiseLeftShift": np.left_shift,
    "BitwiseRightShift": np.right_shift,
    "LeftShift": np.left_shift,
    "RightShift": np.right_shift,
    "Where": np.where,
    "Select": lambda condlist, choicelist, default=0: np.select(condlist, choicelist, default),
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
    "Threshold": act.threshold,
    "SparsePlus": act.sparse_plus,
    "SparseSigmoid": act.sparse_sigmoid,
    "Softmax": f.over_all_elements(act.softmax),
    "LogSoftmax": f.over_all_elements(act.log_softmax),
}


def _reduction(function: Any) -> Function:
    return lambda x, axis=None, keepdims=False: function(x, axis=f.axes(axis), keepdims=keepdims)


def _total(function: Any) -> Function:
    def total(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        x = f.cast(x, dtype)
        wide = {"b": np.int32, "i": np.int32, "u": np.uint32}.get(x.dtype.kind) if x.dtype.itemsize < 4 else None
        return function(x, axis=f.axes(axis), keepdims=keepdims, dtype=wide or x.dtype)

    return total


def _cumulative(function: Any) -> Function:
    def cumulative(x: Any, axis: Any = None, dtype: Any = None) -> Any:
        x = f.cast(x, dtype)
        return function(x, axis=axis, dtype=np.int32 if x.dtype == bool else x.dtype)

    return cumulative


def _argument(function: Any) -> Function:
    return lambda x, axis=None, keepdims=False: function(x, axis=axis, keepdims=keepdims).astype(np.int32)


_REDUCTIONS: dict[str, Function] = {
    **{
        name: _reduction(getattr(np, name.lower()))
        for name in ("Mean", "Max", "Min", "Var", "Std", "Median", "Ptp")
    },
    "Sum": _total(np.sum),
    "Prod": _total(np.prod),
    "Nansum": _reduction(np.nansum),
    "Nanmean": _reduction(np.nanmean),
    "Nanmax": _reduction(np.nanmax),
    "Nanmin": _reduction(np.nanmin),
    "Amax": _reduction(np.max),
    "Amin": _reduction(np.min),
    "All": _reduction(np.all),
    "Any": _reduction(np.any),
    "Argmax": _argument(np.argmax),
    "Argmin": _argument(np.argmin),
    "CountNonzero": lambda x, axis=None: (x != 0).sum(f.axes(axis)).astype(np.int32),
    "Quantile": f.quantile,
    "Percentile": lambda x, q, **options: f.quantile(x, np.asarray(q, np.float32) / np.float32(100), **options),
    "Average": f.average,
    "Moments": lambda x, axes, keepdims=False: [
        function(x, axis=f.axes(axes), keepdims=keepdims) for function in (np.mean, np.var)
    ],
    "Logsumexp": f.logsumexp,
    "Norm": f.norm,
    "Normalize": f.normalize,
    "LayerNorm": f.layer_norm,
    "RMSNorm": f.rms_norm,
    "BatchNorm": f.batch_norm,
    "Cumsum": _cumulative(np.cumsum),
    "Cumprod": _cumulative(np.cumprod),
    "Diff": lambda a, n=1, axis=-1: np.diff(a, n, axis),
}

_SORTING: dict[str, Function] = {
    "Sort": lambda x, axis=-1: np.sort(x, axis),
    "Argsort": lambda x, axis=-1: np.argsort(x, axis, kind="stable").astype(np.int32),
    "TopK": f.top_k,
    "SearchSorted": lambda sorted_sequence, values, side="left": np.searchsorted(
        sorted_sequence, values, side
    ).astype(np.int32),
    "Digitize": lambda x, bins: np.digitize(x, np.asarray(bins, np.float32)).astype(np.int32),
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
    "Hstack": lambda xs: np.hstack(xs),
    "Vstack": lambda xs: np.vstack(xs),
    "Append": lambda x1, x2, axis=None: np.append(x1, x2, axis),
    "Meshgrid": lambda *x, indexing="xy": list(np.meshgrid(*x, indexing=indexing)),
    "Slice": f.slice_at,
    "SliceUpdate": f.slice_update,
    "ScatterUpdate": f.scatter_update,
    "Scatter": lambda indices, values, shape: f.scatter_update(
        np.zeros(tuple(shape), values.dtype), indices, values, "add"
    ),
    "Diagonal": lambda x, offset=0, axis1=0, axis2=1: np.diagonal(x, offset, axis1, axis2),
    "Trace": lambda x, offset=0, axis1=0, axis2=1: np.trace(x, offset, axis1, axis2),
    "Rot90": lambda array, k=1, axes=(0, 1): np.rot90(array, k, f.axes(axes)),
    "Flip": lambda x, axis=None: np.flip(x, f.axes(axis)),
    "Repeat": lambda x, repeats, axis=None: np.repeat(x, repeats, axis=axis),
    "Tile": lambda x, repeats: np.tile(x, repeats),
    "Pad": f.pad,
    "Roll": lambda x, shift, axis=None: np.roll(x, shift, axis),
    "BroadcastTo": lambda x, shape: np.broadcast_to(x, tuple(shape)),
    "Take": f.take,
    "TakeAlongAxis": f.take_along_axis,
    "OneHot": f.one_hot,
    "MultiHot": f.multi_hot,
    "Tril": lambda x, k=0: np.tril(x, k),
    "Triu": lambda x, k=0: np.triu(x, k),
    "OnesLike": lambda x, dtype=None: np.ones_like(f.cast(x, dtype)),
    "ZerosLike": lambda x, dtype=None: np.zeros_like(f.cast(x, dtype)),
    "FullLike": lambda x, fill_value, dtype=None: np.full_like(f.cast(x, dtype), fill_value),
}

_PRODUCTS: dict[str, Function] = {
    "Matmul": np.matmul,
    "Dot": np.dot,
    "Einsum": lambda *args, subscripts="": np.einsum(subscripts, *args),
    "Tensordot": lambda x1, x2, axes=2: np.tensordot(x1, x2, axes),
    "Inner": np.inner,
    "Vdot": np.vdot,
    "Cross": lambda x1, x2, axisa=-1, axisb=-1, axisc=-1, axis=None: np.cross(x1, x2, axisa, axisb, axisc, axis),
    "Outer": lambda x1, x2: x1.reshape(-1)[:, None] * x2.reshape(-1)[None],
    "DotProductAttention": f.dot_product_attention,
    "MaxPool": f.pool,
    "AveragePool": lambda inputs, **options: f.pool(inputs, kind="average", **options),
    "Resize": f.resize,
    "PadImages": f.pad_images,
    "CropImages": f.crop_images,
    "RGBToGrayscale": f.rgb_to_grayscale,
    "ExtractPatches": f.extract_patches,
    "DepthToSpace": f.depth_to_space,
    "SpaceToDepth": f.space_to_depth,
}

_IGNORED = frozenset({"flash_attention", "ragged", "sorted", "sparse", "synchronized"})
_ALL = {**_ONE_TO_ONE, **_REDUCTIONS, **_SORTING, **_SHAPING, **_PRODUCTS}

define_calls("ops", _ALL, __name__, _IGNORED, "the operation {} of keras/src/ops")
