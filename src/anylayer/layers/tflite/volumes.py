"""Convolutions of volumes (N, D, H, W, C)."""

from __future__ import annotations

from anylayer.layer import Array, Enum, attribute
from anylayer.layer.arguments import integers
from anylayer.layers._table import of_tensorflow, operators
from anylayer.layers.tflite._base import SOURCE, TFLiteLayer, fused_row

_AXES = ("d", "h", "w")
_HOW = {
    "padding": attribute(Enum("SAME", "VALID")),
    **{f"stride_{axis}": attribute("int32") for axis in _AXES},
    **{f"dilation_{axis}_factor": attribute("int32", 1) for axis in _AXES},
}


def _steps(padding: str, **steps: int) -> dict[str, object]:
    return {
        "padding": padding,
        "explicit_paddings": (),
        "data_format": "NDHWC",
        "strides": [1, *(steps[f"stride_{axis}"] for axis in _AXES), 1],
        "dilations": [1, *(steps[f"dilation_{axis}_factor"] for axis in _AXES), 1],
    }


def _convolve(x: Array, w: Array, bias: Array | None = None, *, padding: str, **steps: int) -> Array:
    y: Array = of_tensorflow("Conv3D")(x, w, **_steps(padding, **steps))
    return y if bias is None else y + bias


def _transpose_convolution(
    shape: list[int], w: Array, x: Array, bias: Array | None = None, *, padding: str, **steps: int
) -> Array:
    y: Array = of_tensorflow("Conv3DBackpropInputV2")(shape, w, x, **_steps(padding, **steps))
    return y if bias is None else y + bias


operators(
    TFLiteLayer,
    SOURCE,
    {
        "CONV_3D": fused_row("Convolve volumes with a filter (depth, height, width, C, M), and add a bias.",
            _convolve, "conv3d", "The bias (M,) may be absent.", **_HOW),
        "CONV_3D_TRANSPOSE": fused_row("Compute the transposed convolution of volumes, and add a bias.",
            _transpose_convolution, "conv3d_transpose",
            "Inputs: the output's shape, a constant; the filter (depth, height, width, M, C); x; a bias (M,).",
            shape=integers, **_HOW),
    },
)  # fmt: skip
