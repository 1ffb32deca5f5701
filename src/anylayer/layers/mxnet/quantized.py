"""Quantized operators, as MXNet computes them with oneDNN on processors.

A quantized array goes with its range, two arrays (1,): a number q stands for q * r / s, where r is the largest
magnitude of the range. s is 127.5 for int8 and 255.5 for uint8, in older operators 127 and 255, and 2^31 - 1 for
int32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anylayer.errors import given
from anylayer.layer import Array, Enum, Node, attribute, layer, need
from anylayer.layers._control import Control
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import FLAG, INT, INTS, MXNetLayer, any_dtypes, need_weights, operators, training
from anylayer.layers.mxnet.windows import POOL, SIZES, convolve, pool
from anylayer.network import Function, Subgraph

Scales = Mapping[str, np.float32]
_INT32 = np.float32(2**31 - 1)
_SCALES: Scales = {"int8": np.float32(127.5), "uint8": np.float32(255.5)}
_OLD_SCALES: Scales = {"int8": np.float32(127), "uint8": np.float32(255)}
_LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}
_one = np.float32(1)
_convolve: Function = convolve


def _range(low: float | None, high: float | None) -> tuple[Array, Array] | None:
    """Return the range that two attributes state, None if they do not."""
    return None if low is None or high is None else (np.array([low], np.float32), np.array([high], np.float32))


def _largest(low: Array, high: Array) -> Array:
    """Return the largest magnitude of a range, a scalar."""
    return np.maximum(np.abs(low), np.abs(high)).reshape(())


def _step(x: Array, low: Array, high: Array, scales: Scales = _SCALES) -> Array:
    """Return the real number that 1 of a quantized array stands for."""
    need(x.dtype.name in scales, f"an array of {x.dtype} is not quantized; expected int8 or uint8")
    return _largest(low, high) / scales[x.dtype.name]


def _real(x: Array, low: Array, high: Array) -> Array:
    return x.astype(np.float32) * _step(x, low, high)


def _saturate(x: Array, dtype: str) -> Array:
    """Return real numbers as the nearest numbers of a dtype."""
    low, high = _LIMITS[dtype]
    return np.clip(np.rint(x), np.float32(low), np.float32(high)).astype(dtype)


def _kind(out_type: str, low: float | None) -> str:
    return out_type if out_type != "auto" else "uint8" if low is not None and low >= 0 else "int8"


def _with_range(y: Array, largest: Array) -> list[Array]:
    """Return an array with a range around 0."""
    return [y, -largest.reshape(1), largest.reshape(1)]


def _quantize(
    x: Array, out_type: str, min_calib_range: float | None, max_calib_range: float | None
) -> list[Array]:
    stated = _range(min_calib_range, max_calib_range)
    if x.dtype.name in _LIMITS:
        return [x, *(stated or _range(*((-127, 127) if x.dtype == np.int8 else (0, 255))) or ())]
    need(x.dtype == np.float32, f"only float32 is supported, got {x.dtype}")
    low, high = stated or (x.min().reshape(1), x.max().reshape(1))
    dtype, largest = _kind(out_type, min_calib_range if stated else None), _largest(low, high)
    y = _saturate(x * (_SCALES[dtype] / largest), dtype)
    return [y, low, high] if dtype == "uint8" else _with_range(y, largest)


def _quantize_to_range(x: Array, min_range: Array, max_range: Array, out_type: str) -> list[Array]:
    largest = _largest(min_range, max_range)
    y = _saturate(x * (_OLD_SCALES[out_type] / largest), out_type)
    return [y, min_range, max_range] if out_type == "uint8" else _with_range(y, largest)


def _requantize(
    x: Array, min_range: Array, max_range: Array, out_type: str, min_calib_range: float | None,
    max_calib_range: float | None,
) -> list[Array]:  # fmt: skip
    need(x.dtype == np.int32, f"takes int32, got {x.dtype}")
    numbers, step = x.astype(np.float32), _largest(min_range, max_range) / _INT32
    stated, dtype = _range(min_calib_range, max_calib_range), _kind(out_type, min_calib_range)
    largest = _largest(*stated) if stated else np.abs(numbers).max() * step
    y, low, high = _with_range(_saturate(numbers * (step * (_OLD_SCALES[dtype] / largest)), dtype), largest)
    return [y, np.zeros(1, np.float32) if dtype == "uint8" else low, high]


def _keep_range(compute: Function) -> Function:
    """Return the function of a quantized array whose range stays."""

    def function(x: Array, low: Array, high: Array, **how: object) -> list[Array]:
        need(x.dtype.name in _LIMITS, f"an array of {x.dtype} is not quantized; expected int8 or uint8")
        return [compute(x, **how), low, high]

    return function


def _relu(x: Array, act_type: str) -> Array:
    need(x.dtype == np.int8, f"takes int8, got {x.dtype}")
    return np.maximum(x, np.int8(0))


def _concatenate(*values: Array, dim: int) -> list[Array]:
    need(len(values) % 3 == 0 < len(values), f"{len(values)} inputs are not an array and a range for each")
    n = len(values) // 3
    xs, lows, highs = values[:n], values[n::2], values[n + 1 :: 2]
    low = np.minimum(np.stack(lows).min(axis=0), np.float32(0))
    high = np.maximum(np.stack(highs).max(axis=0), np.float32(0))
    dtype = "int8" if any(x.dtype == np.int8 for x in xs) else "uint8"
    scale = _SCALES[dtype] / _largest(low, high)
    scaled = [x.astype(np.float32) * (_step(x, a, b) * scale) for x, a, b in zip(xs, lows, highs)]
    return [np.concatenate([_saturate(x, dtype) for x in scaled], axis=dim), low, high]


def _add(
    a: Array, b: Array, a_min: Array, a_max: Array, b_min: Array, b_max: Array, min_calib_range: float | None,
    max_calib_range: float | None,
) -> list[Array]:  # fmt: skip
    both = [_real(a, a_min, a_max), _real(b, b_min, b_max)]
    stated = _range(min_calib_range, max_calib_range)
    if stated is None:
        need(a.dtype == b.dtype, f"needs min_calib_range and max_calib_range for {a.dtype} and {b.dtype}")
        largest = _largest(a_min, a_max) + _largest(b_min, b_max)
        return _with_range(np.rint((both[0] + both[1]) * (_INT32 / largest)).astype(np.int32), largest)
    dtype = "int8" if np.int8 in (a.dtype, b.dtype) else "uint8"
    scale = _SCALES[dtype] / _largest(*stated)
    if a.dtype != b.dtype:  # the array of uint8 is first made int8 in the scale of the sum
        i = 0 if a.dtype == np.uint8 else 1
        both[i] = _saturate(both[i] * scale, dtype).astype(np.float32) / scale
    return [_saturate((both[0] + both[1]) * scale, dtype), *stated]


def _product(y: Array, x: Array, limits: Sequence[Array], scales: Scales) -> list[Array]:
    """Return int32 products of an array with weights, and their range. The limits are those of both."""
    step = _step(x, limits[0], limits[1], scales) * (_largest(limits[2], limits[3]) / _OLD_SCALES["int8"])
    return _with_range(np.rint(y).astype(np.int32), step * _INT32)


def _multiply(*values: Array, num_hidden: int, no_bias: bool, flatten: bool) -> list[Array]:
    n = 2 if no_bias else 3
    need(len(values) == 3 * n, f"no_bias={no_bias} needs {3 * n} inputs, got {len(values)}")
    (x, w, *bias), limits = values[:n], values[n:]
    matrix = x.reshape(x.shape[0], -1) if flatten else x
    need_weights(w, (num_hidden, matrix.shape[-1]), bias[0] if bias else None, num_hidden, no_bias)
    y = matrix.astype(np.float32) @ w.astype(np.float32).transpose(1, 0)
    steps = [_step(array, limits[2 * i], limits[2 * i + 1]) for i, array in enumerate(values[:n])]
    if bias:
        y = y + np.trunc(bias[0].astype(np.float32) * (steps[2] / (steps[0] * steps[1])))
    return _product(y, x, limits, _OLD_SCALES)


def _convolution(*values: Array, no_bias: bool, **how: object) -> list[Array]:
    n = 2 if no_bias else 3
    need(len(values) == 3 * n, f"no_bias={no_bias} needs {3 * n} inputs, got {len(values)}")
    need(
        no_bias or values[0].dtype == np.uint8, "int8 with a bias is not supported: MXNet computes it on GPUs only"
    )
    y = _convolve(*(x.astype(np.float32) for x in values[:n]), no_bias=no_bias, layout="NCHW", **how)
    return _product(y, values[0], values[n:], dict.fromkeys(_LIMITS, _OLD_SCALES["int8"]))


_CALIBRATED = {"min_calib_range": attribute("float", None), "max_calib_range": attribute("float", None)}
_OUT_TYPE = attribute(Enum("auto", "int8", "uint8"), "int8")
operators(
    {
        "_contrib_quantize_v2": row("Quantize an array to int8 or uint8.", _quantize, "quantize_v2.cc",
            "The range is that of the attributes, by default that of the array. out_type auto is uint8 where "
            "min_calib_range is 0 or more.", out_type=_OUT_TYPE, **_CALIBRATED),
        "_contrib_quantize": row("Quantize an array to int8 or uint8 in a range.", _quantize_to_range,
            "quantize.cc", out_type=attribute(Enum("int8", "uint8"), "uint8")),
        "_contrib_dequantize": row("Return the real numbers of a quantized array.", _real, "dequantize.cc",
            body={"neutral": {"out_type": "float32"}}),
        "_contrib_requantize": row("Quantize int32 to int8 or uint8.", _requantize, "requantize.cc",
            out_type=_OUT_TYPE, **_CALIBRATED),
        "_contrib_quantized_pooling": row("Compute the maximum or mean of each window.",
            _keep_range(lambda x, **how: _saturate(pool(x.astype(np.float32), **how), x.dtype.name)),
            "quantized_pooling.cc", **POOL),
        "_contrib_quantized_act": row("Replace negative numbers by 0.", _keep_range(_relu),
            "quantized_activation.cc", act_type=attribute(Enum("relu"))),
        "_contrib_quantized_flatten": row("Reshape to (N, values of a sample).",
            _keep_range(lambda x: x.reshape(x.shape[0], -1)), "quantized_flatten.cc"),
        "_contrib_quantized_concat": row("Concatenate quantized arrays along axis dim.", _concatenate,
            "quantized_concat.cc", dim=attribute("int32", 1)),
        "_contrib_quantized_elemwise_add": row("Add two quantized arrays.", _add, "quantized_elemwise_add.cc",
            "With a range as attributes the sum is int8 or uint8, else int32.", **_CALIBRATED),
        "_contrib_quantized_fully_connected": row("Multiply by the transpose of weights (M, K), and add a bias.",
            _multiply, "quantized_fully_connected.cc",
            "The products are int32. Inputs: the arrays, then their ranges.", num_hidden=INT, no_bias=FLAG,
            flatten=attribute("bool", True)),
        "_contrib_quantized_conv": row("Convolve images with weights; the sums are int32.", _convolution,
            "quantized_conv.cc",
            "Inputs: the arrays, then their ranges. A bias is added as it is, as MXNet does on processors.",
            {"neutral": {"layout": "NCHW"}}, num_filter=INT, num_group=attribute("int32", 1), dilate=INTS,
            no_bias=FLAG, **SIZES),
    },
    "Source: src/operator/quantization/{} of MXNet.",
    any_dtypes,
)  # fmt: skip


class _Subgraph(Control, MXNetLayer):
    """A subgraph that oneDNN computes as one operator: a product, and what follows it."""

    family = "mxnet"
    training = training("with_bn with_act with_sum with_postsum_act with_eltwise with_relu")["training"]
    subgraphs: Sequence[Subgraph] = attribute("any", doc="the network that it computes")
    quantized: bool = FLAG
    enable_float_output: bool = attribute("bool", False, doc="whether the output is float32")
    min_calib_range: float | None = attribute("float", None)
    max_calib_range: float | None = attribute("float", None)

    def setup(self) -> None:
        need(len(self.subgraphs) == 1, f"needs one subgraph, got {len(self.subgraphs)}")

    def node(self, kind: str) -> Node | None:
        """Return the only node of a type in the subgraph, None if there is none."""
        nodes = [node for node in self.subgraphs[0].network.nodes if node.type == kind]
        need(len(nodes) <= 1, f"its subgraph has {len(nodes)} operators {kind}")
        return nodes[0] if nodes else None

    def result(self, arguments: Mapping[str, Array], place: str = "") -> list[Array]:
        """Return the outputs for the inputs of the subgraph by name: quantized with its range, or float32.

        place: the dtype of the array in whose place oneDNN writes a sum, which limits it, too.
        """
        network = self.subgraphs[0].network
        need({*network.inputs} == {*arguments}, f"its subgraph has the inputs {', '.join(network.inputs)}")
        outputs = self.inside(self.subgraphs[0], [arguments[name] for name in network.inputs], ())
        if not self.quantized or self.enable_float_output:
            return outputs
        rule = "needs min_calib_range and max_calib_range: an output of int32 is not supported"
        stated, last = given(_range(self.min_calib_range, self.max_calib_range), rule), network.nodes[-1]
        is_relu = last.type == "Activation" and last.params["attrs"].get("act_type") == "relu"
        dtype = "uint8" if is_relu else "int8"
        y = outputs[0] * (_SCALES[dtype] / _largest(*stated))
        if place not in ("", dtype):
            self.note("sums are limited to 0..127, as MXNet writes them in place of an array of the other dtype")
            y = np.clip(y, np.float32(0), np.float32(127))
        return [_saturate(y, dtype), *stated][: self.outputs]


@layer("_sg_mkldnn_conv")
class FusedConvolution(_Subgraph):
    """Convolve images, normalize, add another array and apply an activation, as the subgraph says.

    Inputs: data, weights, optionally the bias, and gamma, beta, mean and variance; then the array that is added. A
    quantized one has the ranges of data and of this array as further inputs. Its weights are float32 and become
    int8, each filter in a range of its own, after the normalization is folded into them.
    Source: src/operator/subgraph/mkldnn/mkldnn_conv.cc of MXNet.
    """

    def forward(self, *values: Array) -> list[Array]:
        conv = given(self.node("Convolution"), "its subgraph has no Convolution")
        norm, add = self.node("BatchNorm"), self.node("elemwise_add")
        names = [*conv.inputs, *(norm.inputs[1:] if norm else ())]
        names += [name for name in (add.inputs if add else ()) if name in self.subgraphs[0].network.inputs]
        n, ranges = len(names), 1 + (add is not None)
        need(len(values) == n + 2 * ranges * self.quantized, f"has {len(values)} inputs")
        arguments = dict(zip(names, values))
        if self.quantized:
            for i, name in enumerate([names[0], names[-1]][:ranges]):
                arguments[name] = _real(arguments[name], values[n + 2 * i], values[n + 2 * i + 1])
            _fold(arguments, conv, norm)
        return self.result(arguments, values[n - 1].dtype.name if add and self.quantized else "")


def _fold(arguments: dict[str, Array], conv: Node, norm: Node | None) -> None:
    """Fold the normalization of a fused convolution into its weights, and round them to int8."""
    w = arguments[conv.inputs[1]]
    wide = (-1, *(1,) * (len(w.shape) - 1))
    if norm is not None:
        attrs = norm.params["attrs"]
        eps = np.float32(attrs.get("eps", 1e-3))
        gamma, beta, mean, var = (arguments[name] for name in norm.inputs[1:])
        factor = (np.ones(gamma.shape, np.float32) if attrs.get("fix_gamma", 1) else gamma) / np.sqrt(var + eps)
        w, zero, shift = w * factor.reshape(wide), np.zeros(mean.shape, np.float32), beta - mean * factor
        for name in conv.inputs[2:]:
            shift, arguments[name] = shift + arguments[name] * factor, zero
        arguments.update(zip(norm.inputs[1:], (zero + _one, shift, zero, zero + (_one - eps))))
    largest = np.abs(w).reshape(w.shape[0], -1).max(axis=1).reshape(wide)
    scale = np.where(largest == 0, _one, _SCALES["int8"] / np.where(largest == 0, _one, largest))
    arguments[conv.inputs[1]] = _saturate(w * scale, "int8").astype(np.float32) / scale


@layer("_sg_mkldnn_fully_connected")
class FusedProduct(_Subgraph):
    """Multiply by the transpose of weights, add a bias and apply an activation, as the subgraph says.

    Inputs: data, weights, optionally the bias. If it is quantized, all are quantized, and their ranges are further
    inputs.
    Source: src/operator/subgraph/mkldnn/mkldnn_fc.cc of MXNet.
    """

    def forward(self, *values: Array) -> list[Array]:
        product = given(self.node("FullyConnected"), "its subgraph has no FullyConnected")
        n, arrays = len(product.inputs), [*values]
        need(len(values) == n + 2 * n * self.quantized, f"has {len(values)} inputs")
        if self.quantized:
            arrays = [_real(x, values[n + 2 * i], values[n + 2 * i + 1]) for i, x in enumerate(values[:n])]
        return self.result(dict(zip(product.inputs, arrays)))
