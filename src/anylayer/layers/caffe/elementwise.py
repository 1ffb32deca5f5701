"""Layers that compute a function of each element."""

from __future__ import annotations

import math

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Layer, field, layer, need
from anylayer.layers._table import computes, operators, row
from anylayer.layers.caffe._axes import canonical, need_output_apart
from anylayer.layers.caffe._messages import (
    FillerParameter,
    constant,
    engine_field,
    no_effect,
    reads,
    written_filler,
)


class Elementwise(Layer):
    """A function of each element."""

    elementwise = True


def leaky_relu(x: Array, slope: float) -> Array:
    """Return x where x > 0, else slope * x."""
    return ops.relu(x) if slope == 0 else ops.leaky_relu(x, slope)


@layer("Log")
class Log(Elementwise):
    """Compute the logarithm to `base` of shift + scale * x.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/log_layer.cpp.
    """

    message = "log_param"
    numbers = {"": 134}
    base: float = field(1, "float", -1.0, doc="positive and not 1; -1 means e")
    scale: float = field(2, "float", 1.0, doc="factor of x")
    shift: float = field(3, "float", 0.0, doc="added to scale * x")

    def setup(self) -> None:
        need(
            self.base == -1 or (0 < self.base < math.inf and self.base != 1),
            f"base must be positive and not 1, or -1 for e, got {self.base}",
        )

    def forward(self, x: Array) -> Array:
        inner = x if self.scale == 1 else x * np.float32(self.scale)
        y = np.log(inner if self.shift == 0 else inner + np.float32(self.shift))
        return y if self.base == -1 else y * np.float32(1 / math.log(self.base))


@layer("Log", dialects=("opencv",))
class LogOpenCV(Log):
    """Compute the natural logarithm of x: OpenCV ignores base, scale and shift.

    The output has the shape of the input.
    Source: opencv modules/dnn/src/layers/elementwise_layers.cpp.
    """

    needs_dialect = True

    def setup(self) -> None:
        ignored = [name for name in type(self).fields if self.has(name)]
        if ignored:
            self.note(
                f"{', '.join(ignored)} ignored, as by OpenCV: the result is the natural logarithm of the input"
            )

    def forward(self, x: Array) -> Array:
        return np.log(x)


@layer("PReLU")
class PReLU(Elementwise):
    """Compute x where x > 0, else slope * x with a learned slope.

    (N, C, ...) to the same shape. Weight: slope (C,), or () with `channel_shared`.
    Source: BVLC/caffe src/caffe/layers/prelu_layer.cpp; arXiv 1502.01852.
    """

    message = "prelu_param"
    numbers = {"": 131}
    filler: FillerParameter = field(1, FillerParameter, doc="values of the slope without a file; default 0.25")
    channel_shared: bool = field(2, "bool", False, doc="one slope for all channels")

    def forward(self, x: Array) -> Array:
        need(len(x.shape) >= 2, f"needs an input of 2 axes or more (N, C, ...), got shape {tuple(x.shape)}")
        filler = written_filler(self, "filler") or constant(0.25)
        slope = self.blob(0, () if self.channel_shared else (x.shape[1],), filler, what="slope")
        return ops.prelu(x, slope.reshape(-1, *(1,) * (len(x.shape) - 2)))


@layer("ReLU")
class ReLU(Elementwise):
    """Compute x where x > 0, else negative_slope * x.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/relu_layer.cpp.
    """

    message = "relu_param"
    numbers = {"": 123}
    negative_slope: float = field(1, "float", 0.0, doc="factor of negative values (leaky ReLU)")
    engine: str = engine_field(2)
    fuse: bool = no_effect(3, "bool", False)

    def forward(self, x: Array) -> Array:
        return leaky_relu(x, self.negative_slope)


@layer("ReLU6")
class ReLU6(Elementwise):
    """Compute min(x, 6) where x > 0, else negative_slope * x.

    Some forks read relu_param, others relu6_param; both are accepted.
    Source: eric612/MobileNet-YOLO src/caffe/layers/relu6_layer.cpp.
    """

    message = "relu6_param"
    numbers = {"sophgo": 167, "amct": 2060, "": 100000}
    also = {"relu_param": ReLU}
    relu_param: ReLU
    negative_slope: float = field(1, "float", 0.0, doc="factor of negative values")
    engine: str = engine_field(2)
    fuse: bool = no_effect(3, "bool", False)

    def forward(self, x: Array) -> Array:
        need(
            not (self.has("negative_slope") and self.relu_param.has("negative_slope")),
            "give negative_slope in relu6_param or in relu_param, not in both",
        )
        slope = self.negative_slope or self.relu_param.negative_slope
        if slope == 0:
            return np.clip(x, np.float32(0), np.float32(6))
        return np.minimum(ops.leaky_relu(x, slope), np.float32(6))


def _crelu(x: Array, negative_slope: float, concat_axis: int, *, in_place: bool) -> Array:
    need_output_apart(in_place)
    both = np.concatenate([x, -x], axis=canonical(concat_axis, x, "concat_axis"))
    return leaky_relu(both, negative_slope)


def _exp(x: Array, base: float, scale: float, shift: float) -> Array:
    need(base == -1 or 0 < base < math.inf, f"base must be positive, or -1 for e, got {base}")
    log_base = 1.0 if base == -1 else math.log(base)
    inner, outer = np.float32(log_base * scale), np.float32(np.exp(log_base * shift))
    y = np.exp(x if inner == 1 else x * inner)
    return y if outer == 1 else y * outer


def _power(x: Array, power: float, scale: float, shift: float) -> Array:
    if power * scale == 0:
        with np.errstate(all="ignore"):
            value = np.float32(1) if power == 0 else np.float32(shift) ** np.float32(power)
        return np.full(x.shape, value, np.float32)
    y = x if scale == 1 else x * np.float32(scale)
    y = y if shift == 0 else y + np.float32(shift)
    if power in (1, 2):
        return y if power == 1 else y * y
    return np.sqrt(y) if power == 0.5 else y ** np.float32(power)


def _absolute(x: Array, *, in_place: bool) -> Array:
    need_output_apart(in_place)
    return np.abs(x)


_SHIFT = {
    "scale": field(2, "float", 1.0, doc="factor of x"),
    "shift": field(3, "float", 0.0, doc="added to scale * x"),
}
_CAFFE = "BVLC/caffe src/caffe/layers/"

operators(
    Elementwise,
    "The output has the shape of the input.\n    Source: {}.",
    {
        "AbsVal": row("Compute the absolute value of each element.", _absolute, f"{_CAFFE}absval_layer.cpp"),
        "BNLL": computes("log(1 + exp(x)), the softplus", ops.softplus, f"{_CAFFE}bnll_layer.cpp"),
        "Clip": row(
            "Clip each element to min..max: max(min, min(x, max)), so that it becomes min where min is above max.",
            lambda x, min, max: ops.clip(x, min, max), f"{_CAFFE}clip_layer.cpp",
            "NaN becomes min, as in Caffe; an engine may keep it.",
            reads("clip_param", {"sophgo": 165, "": 148}),
            min=field(1, "float", doc="smallest value"), max=field(2, "float", doc="largest value")),
        "Exp": row("Compute base ** (shift + scale * x).", _exp, f"{_CAFFE}exp_layer.cpp",
            body=reads("exp_param", 111), base=field(1, "float", -1.0, doc="positive; -1 means e"), **_SHIFT),
        "Power": row("Compute (shift + scale * x) ** power.", _power, f"{_CAFFE}power_layer.cpp",
            body=reads("power_param", 122), power=field(1, "float", 1.0, doc="exponent"), **_SHIFT),
        "ELU": row("Compute x where x > 0, else alpha * (exp(x) - 1).", ops.elu,
            f"{_CAFFE}elu_layer.cpp; arXiv 1511.07289", body=reads("elu_param", 140),
            alpha=field(1, "float", 1.0, doc="negative values approach -alpha")),
        "GELU": computes("x * P(X <= x) for a standard normal X", ops.gelu, "arXiv 1606.08415"),
        "HardSigmoid": computes("0.2 * x + 0.5, clipped to 0..1", lambda x: ops.hard_sigmoid(x, 0.2, 0.5),
            "eric612/MobileNet-YOLO src/caffe/layers/hard_sigmoid_layer.cpp"),
        "HardSwish": computes("x * min(max(x + 3, 0), 6) / 6", lambda x: x * ops.hard_sigmoid(x, 1 / 6, 0.5),
            "MobileNet v3, arXiv 1905.02244"),
        "Mish": computes("x * tanh(log(1 + exp(x)))", lambda x: x * np.tanh(ops.softplus(x)), "arXiv 1908.08681"),
        "Sigmoid": row("Compute the logistic function 1 / (1 + exp(-x)).", ops.sigmoid,
            f"{_CAFFE}sigmoid_layer.cpp",
            body=reads("sigmoid_param", 124, engine=engine_field(1))),
        "Swish": row("Compute x * sigmoid(beta * x).",
            lambda x, beta: x * ops.sigmoid(x if beta == 1 else x * np.float32(beta)),
            f"{_CAFFE}swish_layer.cpp; arXiv 1710.05941", body=reads("swish_param", 147),
            beta=field(1, "float", 1.0, doc="factor of x inside the sigmoid")),
        "TanH": row("Compute the hyperbolic tangent of each element.", np.tanh, f"{_CAFFE}tanh_layer.cpp",
            body=reads("tanh_param", 127, engine=engine_field(1))),
        "Threshold": row("Compute 1 where x > threshold, else 0.",
            lambda x, threshold: (x > np.float32(threshold)).astype(np.float32), f"{_CAFFE}threshold_layer.cpp",
            body=reads("threshold_param", 128),
            threshold=field(1, "float", 0.0, doc="values above it give 1")),
    },
)  # fmt: skip
operators(
    Layer,
    "Source: Cambricon/caffe src/caffe/layers/crelu_layer.cpp; arXiv 1603.05201.",
    {
        "CReLU": row("Concatenate ReLU of x and ReLU of -x along `concat_axis`.", _crelu,
            body={"message": "crelu_param"},
            negative_slope=field(1, "float", 0.0, doc="factor of negative values"),
            concat_axis=field(2, "int32", 1, doc="axis along which both are concatenated")),
    },
    __module__=__name__,
)  # fmt: skip
