"""Tests of the convolutions, and of all layers with channels first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.layers.harness import noise, ramp, refuses, rejects
from tests.layers.keras.recorded import KerasCase, recorded

globals().update(recorded("conv"))


@pytest.mark.parametrize(
    ("kind", "params", "blobs"),
    [
        (
            "Conv2D",
            {"filters": 3, "kernel_size": 3, "strides": 2, "padding": "same"},
            [noise(3, 3, 4, 3), ramp(3)],
        ),
        ("Conv2DTranspose", {"filters": 3, "kernel_size": 3, "strides": 2}, [noise(3, 3, 3, 4), ramp(3)]),
        ("DepthwiseConv2D", {"kernel_size": 3, "padding": "same"}, [noise(3, 3, 4, 1), ramp(4)]),
        ("MaxPooling2D", {"pool_size": 2, "padding": "same"}, []),
        ("AveragePooling2D", {"pool_size": 3, "strides": 1, "padding": "same"}, []),
        ("UpSampling2D", {"size": 2, "interpolation": "bilinear"}, []),
        ("GlobalMaxPooling2D", {"keepdims": True}, []),
    ],
)
def test_channels_first_matches_channels_last(kind: str, params: dict[str, Any], blobs: list[Any]) -> None:
    """Channels-first layers match channels-last layers. TensorFlow does not compute channels-first on a CPU."""
    x = noise(2, 5, 6, 4)
    last = KerasCase(kind, {"config": params}, [x], blobs=blobs, format="keras").bind()([x])[0]
    first = KerasCase(
        kind,
        {"config": {**params, "data_format": "channels_first"}},
        [x.transpose(0, 3, 1, 2)],
        [last.transpose(0, 3, 1, 2)],
        blobs,
        format="keras",
    )
    first.run()


test_rejects_input_of_other_rank = rejects(
    "Conv2D",
    {"filters": 3, "kernel_size": 1},
    inputs=[ramp(1, 4, 4)],
    text="takes an input of rank 4 (batch, 2 axes, channels), got (1, 4, 4)",
    format="keras",
)
test_rejects_kernel_of_other_shape = rejects(
    "Conv2D",
    {"filters": 3, "kernel_size": 1},
    inputs=[ramp(1, 4, 4, 4)],
    blobs=[ramp(1, 1, 3, 3), ramp(3)],
    text="blob 0 (kernel) has shape (1, 1, 3, 3) in the weights file, expected (1, 1, 4, 3)",
    format="keras",
)
test_refusals = refuses(
    "Conv2D",
    {
        "indivisible_groups": ({"groups": 2}, "groups=2 does not divide 4 channels and 3 filters"),
        "causal_padding_in_2d": (
            {"padding": "causal"},
            "parameter 'padding' must be one of valid, same, got 'causal'",
        ),
        "unknown_data_format": (
            {"data_format": "NHWC"},
            "parameter 'data_format' must be one of channels_last, channels_first, got 'NHWC'",
        ),
        "kernel_size_of_other_rank": (
            {"kernel_size": [1, 2, 3]},
            "parameter 'kernel_size' must be 2 integers, got [1, 2, 3]",
        ),
        "stride_zero": ({"strides": 0}, "parameter 'strides' must be at least 1, got 0"),
        "unknown_field": ({"dilatation": 2}, "config has no field 'dilatation'"),
        "quantized_layer": (
            {"dtype": {"class_name": "QuantizedDTypePolicy", "config": {}}},
            "is quantized (dtype None), which is not supported. Save the model before model.quantize()",
        ),
        "user_activation": (
            {"activation": {"class_name": "function", "config": "act"}},
            "there is no activation 'act' in Keras",
        ),
    },
    params={"filters": 3, "kernel_size": 1},
    format="keras",
    inputs=[ramp(1, 4, 4, 4)],
)
