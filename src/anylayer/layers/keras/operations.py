"""Function calls as layers: keras.ops ("ops.Add") and, in models of Keras 2, TensorFlow ("tf.math.add").

A functional model records a layer where its code calls a function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, nearest, plural
from anylayer.layer import need
from anylayer.layers._table import OperatorType, define
from anylayer.layers.keras import _functions as f
from anylayer.layers.keras._base import KerasLayer, with_inputs
from anylayer.layers.keras.activations import ACTIVATIONS, FUNCTIONS
from anylayer.network import Array, Function, Node


class FunctionLayer(KerasLayer):
    """A function call. Its arguments are those of the call and those of the configuration."""

    function: ClassVar[Function]
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Names of the arguments that do not affect the result."""

    values: dict[str, Any]

    def prepare(self, node: Node, dialect: str | None) -> None:
        config = {**node.params.get("config", {})}
        call = node.params.get("call", {"args": [{"input": i} for i in range(len(node.inputs))], "kwargs": {}})
        bare = Node(node.name, node.type, node.inputs, node.outputs, {}, node.blobs)
        super().prepare(bare, dialect)
        self.call = call
        skipped = {"name", "trainable", "dtype", "function", *self.ignored}
        keywords = _keywords(type(self).function)
        if keywords is not None and "dtype" in keywords:
            skipped.discard("dtype")
        arguments = {k: v for k, v in {**config, **call["kwargs"]}.items() if k not in skipped}
        self.values = {k: v for k, v in arguments.items() if v is not None or k == "axis"}
        for name in self.values if keywords is not None else ():
            if name not in (keywords or ()):
                raise LayerError(f"has no argument '{name}'{nearest(name, keywords or ())}")

    def forward(self, *inputs: Array) -> list[Array]:
        """Return the result of the function, with float64 cast to float32."""
        args, kwargs = with_inputs(self.call["args"], inputs), with_inputs(self.values, inputs)
        try:
            result = type(self).function(*args, **kwargs)
        except (TypeError, AttributeError) as error:
            raise LayerError(f"does not take these arguments ({error})") from error
        listed = result if isinstance(result, (list, tuple)) else [result]
        # a traced array without axes has NumPy's scalar class as its __class__
        results = [np.asarray(r) if issubclass(type(r), (int, float, np.generic)) else r for r in listed]
        need(
            len(results) >= self.outputs,
            f"returns {plural(len(results), 'output')}, but the node has {self.outputs}",
        )
        for result in results:
            kind = getattr(result, "dtype", np.dtype(object)).kind
            need(kind in "fiub", f"returns a {type(result).__name__}, which is not a tensor of numbers")
        return [r.astype(np.float32) if r.dtype == np.float64 else r for r in results][: self.outputs]


def _keywords(function: Function) -> list[str] | None:
    """Return the names of a function's parameters. None where it takes any keyword."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # functions of NumPy in C have no signature before NumPy 2.4
        return ["out", "where", "casting", "order", "dtype", "subok"] if isinstance(function, np.ufunc) else []
    return None if any(p.kind == p.VAR_KEYWORD for p in parameters.values()) else list(parameters)


def _summary(function: Function, source: str) -> str:
    """Return one sentence that says what a function computes."""
    if isinstance(function, np.ufunc) and function.signature is None:
        return f"Compute numpy.{function.__name__} of each element."
    if isinstance(function, np.ufunc) or function.__module__ == "numpy":
        return f"Compute numpy.{function.__name__}."
    first_line = (function.__doc__ or "").strip().split("\n")[0]
    return first_line or f"Compute {source}."


def _define_calls(
    prefix: str, rows: Mapping[str, Function | OperatorType], source: str, ignored: frozenset[str] = frozenset()
) -> None:
    """Register each function as the layer type `prefix`.`name`.

    `source` says where the functions are documented; it contains {} in place of the name. `ignored` are arguments
    that do not affect the result.
    """
    for name, row in rows.items():
        where = source.format(name)
        function = row.function if isinstance(row, OperatorType) else row
        summary = row.summary if isinstance(row, OperatorType) else _summary(row, where)
        members = {"__module__": __name__, "function": staticmethod(function), "ignored": ignored}
        define(f"{prefix}.{name}", FunctionLayer, summary, f"Source: {where}.", **members)


def _named_alike(functions: Mapping[str, Any], names: str) -> dict[str, Any]:
    """Return for each of Keras' operations ("LogicalNot") the function of the same name ("logical_not")."""
    return {name: functions[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()] for name in names.split()}


# -------------------------------------------------------------------------------------------------- keras.ops


def _reduction(function: Function) -> Function:
    return lambda x, axis=None, keepdims=False: function(x, axis=f.axes(axis), keepdims=keepdims)


def _total(function: Function) -> Function:
    def total(x: Array, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Array:
        x = f.cast(x, dtype)
        wide = {"b": np.int32, "i": np.int32, "u": np.uint32}.get(x.dtype.kind) if x.dtype.itemsize < 4 else None
        return function(x, axis=f.axes(axis), keepdims=keepdims, dtype=wide or x.dtype)

    return total


def _cumulative(function: Function) -> Function:
    def cumulative(x: Array, axis: Any = None, dtype: Any = None) -> Any:
        x = f.cast(x, dtype)
        return function(x, axis=axis, dtype=np.int32 if x.dtype == bool else x.dtype)

    return cumulative


def _argument(function: Function) -> Function:
    return lambda x, axis=None, keepdims=False: function(x, axis=axis, keepdims=keepdims).astype(np.int32)


def _over_all_elements(function: Function) -> Function:
    """Return a function of an array and an axis that computes `function` of all elements without an axis."""
    return lambda x, axis=-1: function(x.reshape(-1), 0).reshape(x.shape) if axis is None else function(x, axis)


_KERAS: dict[str, Function | OperatorType] = {
    **_named_alike(
        vars(np),
        "Absolute Negative Exp Exp2 Expm1 Log Log1p Log2 Log10 Sqrt Cbrt Sin Cos Tan Arcsin Arccos Arctan Arctan2 "
        "Arcsinh Arccosh Arctanh Sinh Cosh Tanh Trunc Sign Isfinite Isinf Isnan Fabs Deg2rad Rad2deg Sinc Signbit "
        "Add Subtract Multiply Divide TrueDivide FloorDivide Mod Fmod Hypot Heaviside Logaddexp Logaddexp2 Power "
        "Maximum Minimum Fmax Fmin Equal NotEqual Greater GreaterEqual Less LessEqual LogicalNot LogicalAnd "
        "LogicalOr LogicalXor BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift Where Matmul Dot Inner Vdot",
    ),
    "Abs": np.abs,
    "BitwiseNot": np.invert,
    "BitwiseInvert": np.invert,
    "BitwiseLeftShift": np.left_shift,
    "BitwiseRightShift": np.right_shift,
    "Rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "Square": lambda x: x * x,
    "Reciprocal": lambda x: np.float32(1) / x,
    "Floor": lambda x: np.floor(f.cast(x, "float32")),
    "Ceil": lambda x: np.ceil(f.cast(x, "float32")),
    "Round": lambda x, decimals=0: np.round(x, decimals),
    "Erf": lambda x: ops.erf(x),
    "Isposinf": lambda x: x == np.inf,
    "Isneginf": lambda x: x == -np.inf,
    "Isclose": lambda x1, x2, rtol=1e-5, atol=1e-8, equal_nan=False: np.isclose(x1, x2, rtol, atol, equal_nan),
    "NanToNum": lambda x, nan=0.0, posinf=None, neginf=None: np.nan_to_num(
        x, nan=nan, posinf=posinf, neginf=neginf
    ),
    "Copy": lambda x: x,
    "Real": lambda x: x,
    "Conjugate": lambda x: x,
    "StopGradient": lambda variable: variable,
    "ConvertToTensor": f.cast,
    "Select": lambda condlist, choicelist, default=0: np.select(condlist, choicelist, default),
    "Clip": lambda x, x_min, x_max: np.clip(x, x_min, x_max),
    # activations
    **_named_alike(
        ACTIVATIONS,
        "Relu Relu6 Sigmoid Softplus Softsign Silu LogSigmoid LeakyRelu HardSigmoid HardSilu HardTanh Elu Selu "
        "Celu Glu Squareplus TanhShrink SoftShrink HardShrink Threshold SparsePlus SparseSigmoid",
    ),
    "Gelu": lambda x, approximate=True: FUNCTIONS["gelu"](x, approximate),
    "Softmax": _over_all_elements(FUNCTIONS["softmax"]),
    "LogSoftmax": _over_all_elements(FUNCTIONS["log_softmax"]),
    # reductions
    **{
        name: _reduction(function)
        for name, function in _named_alike(
            vars(np), "Mean Max Min Var Std Median Ptp Nansum Nanmean Nanmax Nanmin Amax Amin All Any"
        ).items()
    },
    "Sum": _total(np.sum),
    "Prod": _total(np.prod),
    "Argmax": _argument(np.argmax),
    "Argmin": _argument(np.argmin),
    "CountNonzero": lambda x, axis=None: (x != 0).sum(f.axes(axis)).astype(np.int32),
    "Percentile": lambda x, q, **options: f.quantile(x, np.asarray(q, np.float32) / np.float32(100), **options),
    "Moments": lambda x, axes, keepdims=False: [
        function(x, axis=f.axes(axes), keepdims=keepdims) for function in (np.mean, np.var)
    ],
    "RMSNorm": f.rms_norm,
    "Cumsum": _cumulative(np.cumsum),
    "Cumprod": _cumulative(np.cumprod),
    "Diff": lambda a, n=1, axis=-1: np.diff(a, n, axis),
    # sorting
    "Sort": lambda x, axis=-1: np.sort(x, axis),
    "Argsort": lambda x, axis=-1: np.argsort(x, axis, kind="stable").astype(np.int32),
    "SearchSorted": lambda sorted_sequence, values, side="left": np.searchsorted(
        sorted_sequence, values, side
    ).astype(np.int32),
    "Digitize": lambda x, bins: np.digitize(x, np.asarray(bins, np.float32)).astype(np.int32),
    # functions of the same name in _functions.py
    **_named_alike(
        vars(f),
        "Cast DivideNoNan Quantile Average Logsumexp Norm Normalize LayerNorm BatchNorm TopK GetItem Reshape "
        "Split Unstack SliceUpdate ScatterUpdate Pad Take TakeAlongAxis OneHot MultiHot DotProductAttention "
        "Resize PadImages CropImages ExtractPatches DepthToSpace SpaceToDepth",
    ),
    "Slice": f.slice_at,
    "MaxPool": f.pool,
    "AveragePool": lambda inputs, **options: f.pool(inputs, kind="average", **options),
    "RGBToGrayscale": f.rgb_to_grayscale,
    # movement
    "Ravel": lambda x: x.reshape(-1),
    "Transpose": lambda x, axes=None: np.transpose(x, axes),
    "Swapaxes": lambda x, axis1, axis2: np.swapaxes(x, axis1, axis2),
    "Moveaxis": lambda x, source, destination: np.moveaxis(x, f.axes(source), f.axes(destination)),
    "Squeeze": lambda x, axis=None: np.squeeze(x, f.axes(axis)),
    "ExpandDims": lambda x, axis: np.expand_dims(x, f.axes(axis)),
    "Concatenate": lambda xs, axis=0: np.concatenate(xs, axis=axis),
    "Stack": lambda x, axis=0: np.stack(x, axis=axis),
    "Hstack": lambda xs: np.hstack(xs),
    "Vstack": lambda xs: np.vstack(xs),
    "Append": lambda x1, x2, axis=None: np.append(x1, x2, axis),
    "Meshgrid": lambda *x, indexing="xy": list(np.meshgrid(*x, indexing=indexing)),
    "Scatter": lambda indices, values, shape: f.scatter_update(
        np.zeros(tuple(shape), values.dtype), indices, values, "add"
    ),
    "Diagonal": lambda x, offset=0, axis1=0, axis2=1: np.diagonal(x, offset, axis1, axis2),
    "Trace": lambda x, offset=0, axis1=0, axis2=1: np.trace(x, offset, axis1, axis2),
    "Rot90": lambda array, k=1, axes=(0, 1): np.rot90(array, k, f.axes(axes)),
    "Flip": lambda x, axis=None: np.flip(x, f.axes(axis)),
    "Repeat": lambda x, repeats, axis=None: np.repeat(x, repeats, axis=axis),
    "Tile": lambda x, repeats: np.tile(x, repeats),
    "Roll": lambda x, shift, axis=None: np.roll(x, shift, axis),
    "BroadcastTo": lambda x, shape: np.broadcast_to(x, tuple(shape)),
    "Tril": lambda x, k=0: np.tril(x, k),
    "Triu": lambda x, k=0: np.triu(x, k),
    "OnesLike": lambda x, dtype=None: np.ones_like(f.cast(x, dtype)),
    "ZerosLike": lambda x, dtype=None: np.zeros_like(f.cast(x, dtype)),
    "FullLike": lambda x, fill_value, dtype=None: np.full_like(f.cast(x, dtype), fill_value),
    # products
    "Einsum": lambda *args, subscripts="": np.einsum(subscripts, *args),
    "Tensordot": lambda x1, x2, axes=2: np.tensordot(x1, x2, axes),
    "Cross": lambda x1, x2, axisa=-1, axisb=-1, axisc=-1, axis=None: np.cross(x1, x2, axisa, axisb, axisc, axis),
    "Outer": lambda x1, x2: x1.reshape(-1)[:, None] * x2.reshape(-1)[None],
}
_IGNORED = frozenset({"flash_attention", "ragged", "sorted", "sparse", "synchronized"})

_define_calls("ops", _KERAS, "the operation {} of keras/src/ops", _IGNORED)


# ----------------------------------------------------------------------------------------------- TensorFlow 2


def _of_one(function: Function) -> Function:
    return lambda x: function(x)


def _of_two(function: Function) -> Function:
    return lambda x, y: function(x, y)


def _activation(name: str) -> Function:
    return lambda features: FUNCTIONS[name](features)


def _along(name: str) -> Function:
    return lambda logits, axis=-1: FUNCTIONS[name](logits, -1 if axis is None else axis)


def _tensor_reduction(function: Function) -> Function:
    return lambda input_tensor, axis=None, keepdims=False: function(
        input_tensor, axis=f.axes(axis), keepdims=keepdims
    )


def _both(names: str, function: Function) -> dict[str, Function]:
    """Return one function under several names."""
    return dict.fromkeys(names.split(), function)


def _swish(features: Array, beta: float = 1.0) -> Any:
    return features * ops.sigmoid(features if beta == 1 else np.float32(beta) * features)


def _matmul(a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    return (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)


_TENSORFLOW: dict[str, Function] = {
    **_both("math.add __operators__.add math.add_n", _of_two(np.add)),
    **_both("math.subtract __operators__.sub", _of_two(np.subtract)),
    **_both("math.multiply __operators__.mul", _of_two(np.multiply)),
    **_both("math.truediv math.divide __operators__.truediv", _of_two(np.divide)),
    **_both("math.pow __operators__.pow", _of_two(np.power)),
    **_both("math.floordiv __operators__.floordiv", _of_two(np.floor_divide)),
    "__operators__.rsub": lambda y, x: np.subtract(x, y),
    "__operators__.radd": lambda y, x: np.add(x, y),
    "__operators__.rmul": lambda y, x: np.multiply(x, y),
    "__operators__.rtruediv": lambda y, x: np.divide(x, y),
    **_both("math.negative __operators__.neg", _of_one(np.negative)),
    "__operators__.getitem": lambda tensor, slice_spec: f.get_item(tensor, slice_spec),
    "math.maximum": _of_two(np.maximum),
    "math.minimum": _of_two(np.minimum),
    **{
        f"math.{name}": _of_one(getattr(np, name))
        for name in ["abs", "exp", "log", "sqrt", "sign", "floor", "ceil", "sin", "cos"]
    },
    "math.rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "math.square": lambda x: x * x,
    "math.erf": lambda x: ops.erf(x),
    "clip_by_value": lambda t, clip_value_min, clip_value_max: np.clip(t, clip_value_min, clip_value_max),
    "cast": f.cast,
    **_both("identity stop_gradient", lambda input: input),
    # activations
    **{f"nn.{name}": _activation(name) for name in ("relu", "relu6", "elu", "selu", "softplus")},
    "nn.leaky_relu": lambda features, alpha=0.2: FUNCTIONS["leaky_relu"](features, alpha),
    "nn.gelu": lambda features, approximate=False: FUNCTIONS["gelu"](features, approximate),
    **_both("nn.silu nn.swish", _swish),
    **_both("math.sigmoid nn.sigmoid", _of_one(FUNCTIONS["sigmoid"])),
    **_both("math.tanh nn.tanh", _of_one(np.tanh)),
    "math.softplus": _activation("softplus"),
    **_both("nn.softmax math.softmax", _along("softmax")),
    "nn.log_softmax": _along("log_softmax"),
    # reductions and movement
    **{
        f"math.reduce_{name}": _tensor_reduction(getattr(np, name))
        for name in ["mean", "sum", "max", "min", "prod", "all", "any"]
    },
    "math.argmax": lambda input, axis=0, output_type="int64": np.argmax(input, axis=axis).astype(output_type),
    **_both("math.l2_normalize nn.l2_normalize", f.l2_normalize),
    "concat": lambda values, axis: np.concatenate(values, axis=axis),
    "stack": lambda values, axis=0: np.stack(values, axis=axis),
    "unstack": lambda value, num=None, axis=0: f.unstack(value, num, axis),
    "split": f.split_sizes,
    "reshape": lambda tensor, shape: f.reshape(tensor, shape),
    **_both("transpose compat.v1.transpose", lambda a, perm=None, conjugate=False: np.transpose(a, perm)),
    "expand_dims": lambda input, axis: np.expand_dims(input, axis),
    **_both("squeeze compat.v1.squeeze", lambda input, axis=None: np.squeeze(input, f.axes(axis))),
    "tile": lambda input, multiples: np.tile(input, multiples),
    **_both(
        "pad compat.v1.pad",
        lambda tensor, paddings, mode="CONSTANT", constant_values=0: f.pad(
            tensor, paddings, mode, constant_values
        ),
    ),
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
    "linalg.matmul": _matmul,
    "one_hot": lambda indices, depth, axis=-1: f.one_hot(indices, depth, -1 if axis is None else axis),
}

_define_calls("tf", _TENSORFLOW, "the function tf.{} of TensorFlow 2")
