"""What all TFLite operators share: options, versions, fused activations, TensorFlow's rows."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from anylayer.layer import Array, Enum, Layer, Node, attribute, need
from anylayer.layers._table import OperatorType, row, row_of_tensorflow
from anylayer.layers.tflite._quantized import on_reals, round_rows
from anylayer.network import Function, Steps

SOURCE = "Source: tensorflow/lite/kernels/{}.cc of TensorFlow."
_QUANTIZED = ("asymmetric_quantize_inputs", "pot_scale_int16", "quantized_bias_type", "quant_spec")
"""Options on which only quantized operators depend."""
_IGNORED = (*_QUANTIZED, "custom_options")
_NEWEST = """
ABS 5 RELU 3 RELU6 3 TANH 3 LOGISTIC 3 AVERAGE_POOL_2D 3 MAX_POOL_2D 3 CONV_2D 7 DEPTHWISE_CONV_2D 7
FULLY_CONNECTED 12 SOFTMAX 3 CONCATENATION 4 ADD 5 SPACE_TO_BATCH_ND 4 BATCH_TO_SPACE_ND 4 MUL 7 L2_NORMALIZATION 2
PAD 4 PADV2 4 RESIZE_BILINEAR 4 RESIZE_NEAREST_NEIGHBOR 4 SPACE_TO_DEPTH 2 DEPTH_TO_SPACE 2 GATHER 6 TRANSPOSE 6
MEAN 3 DIV 2 SUB 5 SPLIT 4 SPLIT_V 2 SQUEEZE 2 STRIDED_SLICE 8 EXP 2 TOPK_V2 3 LOG 2 LOG_SOFTMAX 2 CAST 5
DEQUANTIZE 5 MAXIMUM 4 MINIMUM 4 ARG_MAX 3 ARG_MIN 3 GREATER 2 GREATER_EQUAL 3 LESS 3 LESS_EQUAL 2 SELECT 4
SELECT_V2 2 SLICE 6 TRANSPOSE_CONV 4 TILE 3 SUM 2 REDUCE_PROD 2 REDUCE_MAX 3 REDUCE_MIN 3 EQUAL 4 NOT_EQUAL 3
RSQRT 2 PACK 4 UNPACK 4 FLOOR_DIV 3 FLOOR_MOD 2 RANGE 2 LEAKY_RELU 2 SQUARED_DIFFERENCE 2 FILL 4 MIRROR_PAD 3
REVERSE_V2 3 GATHER_ND 4 WHERE 2 BATCH_MATMUL 4 BROADCAST_TO 3 GELU 2 SIGN 2
TransformLandmarks 2 TransformTensorBilinear 2 Landmarks2TransformMatrix 2
QUANTIZE 3 FAKE_QUANT 2 LSTM 4 RNN 3 SVDF 4 UNIDIRECTIONAL_SEQUENCE_LSTM 4 BIDIRECTIONAL_SEQUENCE_LSTM 3
UNIDIRECTIONAL_SEQUENCE_RNN 3 BIDIRECTIONAL_SEQUENCE_RNN 3
"""
NEWEST = {name: int(version) for name, version in re.findall(r"(\w+) (\d+)", _NEWEST)}
"""The newest known version of operators, where it is not 1. Source: tensorflow/lite/core/kernels/register.cc;
those of MediaPipe: mediapipe/util/tflite/cpu_op_resolver.cc."""


class TFLiteLayer(Layer):
    """An operator of TFLite, whose options are fields.

    An operator with quantized inputs or outputs is computed on the real numbers for which the integers stand, and
    the results are rounded to integers again, except for operators that move integers.
    """

    message = "options"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "forward" in vars(cls):
            cls.forward = on_reals(cls.forward)  # type: ignore[method-assign]  # it keeps the signature

    @property
    def dtypes(self) -> list[str]:
        """The dtypes that the file states for the outputs."""
        return self.settings.get("dtypes", ["float32"])

    def _steps_of(self, index: int) -> Steps | None:
        steps: list[Steps | None] = self.settings.get("steps", [[]])[0]
        return steps[index] if index < len(steps) else None

    @property
    def input_steps(self) -> Steps | None:
        """The scale and the zero point of the first input, where it is quantized."""
        return self._steps_of(0)

    @property
    def hybrid(self) -> Function:
        """The function that rounds rows of the input where only the second input, the weights, is quantized."""
        weights = self._steps_of(1)
        if not weights or self._steps_of(0) or self._steps_of(2):
            return lambda rows, axes: rows
        asymmetric = getattr(self, "asymmetric_quantize_inputs", weights[0].ndim > 0)  # an option of products only
        return functools.partial(round_rows, asymmetric=asymmetric)

    def prepare(self, node: Node, dialect: str | None) -> None:
        newest = NEWEST.get(node.type, 1)
        need(node.version <= newest, f"version {node.version} is not supported; the newest known is {newest}")
        options = {
            k: v
            for k, v in node.params.get("options", {}).items()
            if k in self.fields or not (k in _IGNORED or k.startswith("_"))
        }
        super().prepare(replace(node, params={"options": options}), dialect)


def same_as(kind: str, source: str, around: Function | None = None) -> OperatorType:
    """Return the row of an operation of TensorFlow, for an operator that computes the same: its function, or what
    `around` makes of it."""
    entry = row_of_tensorflow(kind)
    function = entry.function if around is None else around(entry.function)
    return replace(entry, source=source, body={}, function=function)


ACTIVATION = attribute(Enum("NONE", "RELU", "RELU_N1_TO_1", "RELU6"), "NONE")
NO_ACTIVATION = attribute(Enum("NONE"), "NONE")


def activate(y: Array, name: str) -> Array:
    """Return an output after the activation that is part of its operator."""
    low, high = {"NONE": (None, None), "RELU": (0, None), "RELU_N1_TO_1": (-1, 1), "RELU6": (0, 6)}[name]
    if low is not None:
        y = np.maximum(y, y.dtype.type(low))
    return y if high is None else np.minimum(y, y.dtype.type(high))


def fused_row(
    summary: str, function: Function, source: str, details: str = "", body: Mapping[str, object] | None = None,
    **arguments: object,
) -> OperatorType:  # fmt: skip
    """Return the row of an operator whose result an activation follows."""

    @functools.wraps(function)
    def whole(*arrays: Array | None, fused_activation_function: str, **options: object) -> Array:
        return activate(function(*arrays, **options), fused_activation_function)

    return row(summary, whole, source, details, body, fused_activation_function=ACTIVATION, **arguments)
