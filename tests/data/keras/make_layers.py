"""Record the results of real Keras for single layers: one .npz for each test file in tests/layers/keras.

Run with a Python that has tensorflow-cpu: python make_layers.py [FILE ...]. A case `name` is stored as name.json
(class, configuration, call, counts) with its arrays name.in0, name.w0, name.out0 ... With --new, only cases that a
file lacks are recorded, and the others stay. The cases of use_gate, rms_scaling and masks of one plane or per head
were recorded in this way, by Keras 3.15 on PyTorch (KERAS_BACKEND=torch).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

L = keras.layers
HERE = Path(__file__).parent
noise = np.random.default_rng(0)


def x(*shape: int, low: float = -1.0, high: float = 1.0) -> Any:
    return noise.uniform(low, high, shape).astype(np.float32)


class Case:
    def __init__(self, layer: Any, *inputs: Any, **call: Any) -> None:
        self.layer, self.inputs, self.call = layer, inputs, call


def c(layer: Any, *inputs: Any, **call: Any) -> Case:
    return Case(layer, *inputs, **call)


def convolutions() -> dict[str, Case]:
    pic, odd = x(2, 7, 6, 4), x(1, 6, 9, 4)
    return {
        "conv1d_causal": c(L.Conv1D(3, 3, padding="causal", dilation_rate=2), x(2, 9, 4)),
        "conv1d_same": c(L.Conv1D(3, 4, strides=2, padding="same", activation="relu"), x(1, 9, 4)),
        "conv2d_valid": c(L.Conv2D(3, (3, 2), use_bias=False), pic),
        "conv2d_same_even": c(L.Conv2D(3, 3, strides=2, padding="same"), odd),
        "conv2d_same_dilated": c(L.Conv2D(3, 3, padding="same", dilation_rate=(2, 3), activation="tanh"), odd),
        "conv2d_groups": c(L.Conv2D(6, 3, groups=2, padding="same"), pic),
        "conv2d_steps": c(L.Conv2D(2, (1, 4), strides=(3, 2), padding="same"), pic),
        "conv3d": c(L.Conv3D(2, 2, strides=(1, 2, 1), padding="same"), x(1, 3, 4, 5, 2)),
    }


def transposed() -> dict[str, Case]:
    pic = x(1, 4, 5, 3)
    return {
        "valid": c(L.Conv2DTranspose(2, 3, strides=2), pic),
        "same": c(L.Conv2DTranspose(2, 3, strides=2, padding="same", activation="elu"), pic),
        "same_even": c(L.Conv2DTranspose(2, 4, strides=2, padding="same", use_bias=False), pic),
        "kernel_below_stride": c(L.Conv2DTranspose(2, 2, strides=3), pic),
        "kernel_below_stride_same": c(L.Conv2DTranspose(2, 1, strides=3, padding="same"), pic),
        "output_padding": c(L.Conv2DTranspose(2, 3, strides=2, padding="same", output_padding=1), pic),
        "output_padding_valid": c(L.Conv2DTranspose(2, 3, strides=2, output_padding=1), pic),
        "dilated": c(L.Conv2DTranspose(2, 3, dilation_rate=2), pic),
        "one_axis": c(L.Conv1DTranspose(2, 5, strides=2, padding="same"), x(1, 6, 3)),
        "three_axes": c(L.Conv3DTranspose(2, 3, strides=2, padding="same"), x(1, 2, 3, 2, 2)),
    }


def depthwise() -> dict[str, Case]:
    pic = x(1, 7, 6, 3)
    return {
        "two_axes": c(L.DepthwiseConv2D(3, strides=2, padding="same", depth_multiplier=2), pic),
        "dilated": c(L.DepthwiseConv2D(3, dilation_rate=2, activation="relu6"), pic),
        "one_axis": c(L.DepthwiseConv1D(3, padding="same", use_bias=False), x(2, 8, 3)),
        "separable": c(L.SeparableConv2D(4, 3, strides=2, padding="same", depth_multiplier=2), pic),
        "separable_no_bias": c(L.SeparableConv2D(4, 3, use_bias=False, activation="relu"), pic),
        "separable_one_axis": c(L.SeparableConv1D(4, 3, padding="same"), x(2, 8, 3)),
    }


def pools() -> dict[str, Case]:
    pic, wide = x(1, 5, 6, 3), x(1, 3, 4, 5, 2)
    return {
        "max_valid_odd": c(L.MaxPooling2D(2), pic),
        "max_same_odd": c(L.MaxPooling2D(2, padding="same"), pic),
        "max_same_stride_1": c(L.MaxPooling2D(2, strides=1, padding="same"), pic),
        "max_overlapping": c(L.MaxPooling2D(3, strides=2, padding="same"), pic),
        "average_same": c(L.AveragePooling2D(3, strides=2, padding="same"), pic),
        "average_valid": c(L.AveragePooling2D((2, 3), strides=1), pic),
        "max_one_axis": c(L.MaxPooling1D(3, strides=2, padding="same"), x(2, 8, 3)),
        "average_one_axis": c(L.AveragePooling1D(2), x(2, 7, 3)),
        "max_three_axes": c(L.MaxPooling3D(2, padding="same"), wide),
        "average_three_axes": c(L.AveragePooling3D(2, padding="same"), wide),
    }


def global_pools() -> dict[str, Case]:
    pic, line, wide = x(2, 4, 5, 3), x(2, 6, 3), x(1, 2, 3, 4, 2)
    mask = np.array([[1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1]], bool)
    return {
        "average": c(L.GlobalAveragePooling2D(), pic),
        "average_keepdims": c(L.GlobalAveragePooling2D(keepdims=True), pic),
        "max": c(L.GlobalMaxPooling2D(), pic),
        "max_keepdims": c(L.GlobalMaxPooling2D(keepdims=True), pic),
        "average_channels_first": c(L.GlobalAveragePooling2D(data_format="channels_first"), pic),
        "average_one_axis": c(L.GlobalAveragePooling1D(), line),
        "average_masked": c(L.GlobalAveragePooling1D(), line, mask=mask),
        "max_one_axis": c(L.GlobalMaxPooling1D(), line),
        "average_three_axes": c(L.GlobalAveragePooling3D(), wide),
        "max_three_axes": c(L.GlobalMaxPooling3D(keepdims=True), wide),
    }


def batch_normalizations() -> dict[str, Case]:
    pic = x(2, 3, 4, 5)
    return {
        "last_axis": c(L.BatchNormalization(), pic),
        "first_axis": c(L.BatchNormalization(axis=1, epsilon=0.01), pic),
        "no_scale": c(L.BatchNormalization(scale=False), pic),
        "no_center": c(L.BatchNormalization(center=False), pic),
        "plain": c(L.BatchNormalization(scale=False, center=False), pic),
        "rows": c(L.BatchNormalization(), x(3, 5)),
    }


def layer_normalizations() -> dict[str, Case]:
    line = x(2, 3, 4)
    return {
        "last": c(L.LayerNormalization(), line),
        "two_axes": c(L.LayerNormalization(axis=[1, 2], epsilon=1e-5), line),
        "inner_axis": c(L.LayerNormalization(axis=1, center=False), line),
        "no_scale": c(L.LayerNormalization(scale=False), line),
        "rms": c(L.RMSNormalization(), line),
        "rms_scaling": c(L.LayerNormalization(rms_scaling=True), line),
        "rms_scaling_axes": c(L.LayerNormalization(axis=[1, 2], scale=False, rms_scaling=True), line),
    }


def group_normalizations() -> dict[str, Case]:
    pic = x(2, 3, 3, 6)
    return {
        "groups": c(L.GroupNormalization(3), pic),
        "instance": c(L.GroupNormalization(-1, scale=False), pic),
        "first_axis": c(L.GroupNormalization(3, axis=1, center=False), pic),
        "one": c(L.GroupNormalization(1), x(2, 4)),
    }


def unit_normalizations() -> dict[str, Case]:
    return {
        "last": c(L.UnitNormalization(), x(2, 3, 4)),
        "two_axes": c(L.UnitNormalization(axis=[1, 2]), x(2, 3, 4)),
    }


def normalizations() -> dict[str, Case]:
    data = x(6, 4, 3, high=3.0)
    learnt, inner = L.Normalization(), L.Normalization(axis=1)
    learnt.adapt(data)
    inner.adapt(data)
    learnt.keep = inner.keep = True
    return {
        "learnt": c(learnt, data[:2]),
        "learnt_inner": c(inner, data[:2]),
        "given": c(L.Normalization(mean=[1.0, 2.0, 3.0], variance=[4.0, 1.0, 9.0]), data[:2]),
        "given_numbers": c(L.Normalization(axis=None, mean=2.0, variance=4.0), data[:2]),
        "invert": c(L.Normalization(mean=[1.0, 2.0, 3.0], variance=[4.0, 1.0, 9.0], invert=True), data[:2]),
        "rescaling": c(L.Rescaling(1 / 127.5, -1.0), x(1, 2, 2, 3, high=255.0)),
        "rescaling_channels": c(L.Rescaling([1.0, 2.0, 3.0], [0.5, 0.0, 1.0]), x(1, 2, 2, 3)),
    }


def dense() -> dict[str, Case]:
    line = x(2, 3, 4)
    return {
        "rows": c(L.Dense(5), x(2, 4)),
        "steps": c(L.Dense(5, activation="softmax"), line),
        "no_bias": c(L.Dense(5, use_bias=False, activation="gelu"), line),
        "einsum": c(L.EinsumDense("abc,cd->abd", output_shape=(None, 6), bias_axes="d"), line),
        "einsum_ellipsis": c(L.EinsumDense("...x,xy->...y", output_shape=6, bias_axes="y"), line),
        "einsum_heads": c(L.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de"), line),
        "einsum_inner": c(L.EinsumDense("abc,bd->adc", output_shape=(5, 4), activation="relu"), line),
    }


def resizings() -> dict[str, Case]:
    pic, big = x(1, 5, 7, 2), x(1, 9, 12, 2)
    cases = {
        f"resizing_{m}": c(L.Resizing(8, 5, interpolation=m), pic)
        for m in ("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5")
    }
    return {
        **cases,
        "resizing_smaller_bicubic": c(L.Resizing(4, 5, interpolation="bicubic"), big),
        "resizing_smaller_nearest": c(L.Resizing(4, 5, interpolation="nearest"), big),
        "resizing_antialias": c(L.Resizing(4, 5, antialias=True), big),
        "resizing_antialias_bicubic": c(L.Resizing(4, 5, interpolation="bicubic", antialias=True), big),
        "resizing_crop": c(L.Resizing(4, 4, crop_to_aspect_ratio=True), big),
        "resizing_pad": c(L.Resizing(6, 6, pad_to_aspect_ratio=True, fill_value=0.5), big),
        "resizing_channels_first": c(L.Resizing(4, 3, data_format="channels_first"), x(1, 2, 5, 7)),
        "center_crop": c(L.CenterCrop(4, 5), big),
        "center_crop_odd": c(L.CenterCrop(4, 4), pic),
        "center_crop_small": c(L.CenterCrop(8, 6), pic),
        "up_nearest": c(L.UpSampling2D((2, 3)), pic),
        "up_bilinear": c(L.UpSampling2D(2, interpolation="bilinear"), pic),
        "up_bicubic": c(L.UpSampling2D(2, interpolation="bicubic"), pic),
        "up_one_axis": c(L.UpSampling1D(3), x(2, 3, 2)),
        "up_three_axes": c(L.UpSampling3D((1, 2, 3)), x(1, 2, 2, 2, 2)),
    }


def paddings() -> dict[str, Case]:
    pic, line, wide = x(1, 4, 5, 2), x(1, 6, 2), x(1, 3, 4, 3, 1)
    return {
        "zeros_one_axis": c(L.ZeroPadding1D((2, 1)), line),
        "zeros": c(L.ZeroPadding2D(((0, 1), (2, 3))), pic),
        "zeros_equal": c(L.ZeroPadding2D(2), pic),
        "zeros_channels_first": c(L.ZeroPadding2D((1, 2), data_format="channels_first"), pic),
        "zeros_three_axes": c(L.ZeroPadding3D((1, 0, 2)), wide),
        "crop_one_axis": c(L.Cropping1D((2, 1)), line),
        "crop": c(L.Cropping2D(((0, 1), (2, 1))), pic),
        "crop_channels_first": c(L.Cropping2D((1, 0), data_format="channels_first"), pic),
        "crop_three_axes": c(L.Cropping3D((1, 1, 0)), wide),
    }


def shapings() -> dict[str, Case]:
    pic = x(2, 2, 3, 4)
    return {
        "flatten": c(L.Flatten(), pic),
        "flatten_channels_first": c(L.Flatten(data_format="channels_first"), pic),
        "flatten_rows": c(L.Flatten(), x(3)),
        "reshape": c(L.Reshape((4, -1)), pic),
        "permute": c(L.Permute((3, 1, 2)), pic),
        "repeat": c(L.RepeatVector(3), x(2, 4)),
    }


def merges() -> dict[str, Case]:
    a, b, d = x(2, 3, 4), x(2, 3, 4), x(2, 3, 4)
    return {
        "add": c(L.Add(), [a, b, d]),
        "add_broadcast": c(L.Add(), [a, x(2, 1, 4)]),
        "add_ranks": c(L.Add(), [a, x(2, 4)]),
        "subtract": c(L.Subtract(), [a, b]),
        "multiply": c(L.Multiply(), [a, b, d]),
        "average": c(L.Average(), [a, b, d]),
        "maximum": c(L.Maximum(), [a, b]),
        "minimum": c(L.Minimum(), [a, b, d]),
        "concatenate": c(L.Concatenate(), [a, b]),
        "concatenate_inner": c(L.Concatenate(axis=1), [a, b, d]),
        "dot_rows": c(L.Dot(1), [x(2, 4), x(2, 4)]),
        "dot": c(L.Dot((2, 1)), [a, x(2, 4, 5)]),
        "dot_same": c(L.Dot(1), [a, x(2, 3, 5)]),
        "dot_normalized": c(L.Dot(1, normalize=True), [x(2, 4), x(2, 4)]),
    }


NAMES = (
    "celu",
    "elu",
    "exponential",
    "gelu",
    "glu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_shrink",
    "softmax",
    "softplus",
    "softsign",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "tanh",
    "tanh_shrink",
)


def activations() -> dict[str, Case]:
    v = x(2, 3, 4, low=-8.0, high=8.0)
    return {
        **{f"activation_{name}": c(L.Activation(name), v) for name in NAMES},
        "relu": c(L.ReLU(), v),
        "relu_6": c(L.ReLU(6.0), v),
        "relu_slope": c(L.ReLU(negative_slope=0.25), v),
        "relu_threshold": c(L.ReLU(threshold=1.5), v),
        "relu_all": c(L.ReLU(max_value=4.0, negative_slope=0.1, threshold=1.0), v),
        "leaky_relu": c(L.LeakyReLU(), v),
        "leaky_relu_slope": c(L.LeakyReLU(negative_slope=0.1), v),
        "elu": c(L.ELU(alpha=0.5), v),
        "prelu": c(L.PReLU(), v),
        "prelu_shared": c(L.PReLU(shared_axes=[1]), v),
        "softmax": c(L.Softmax(), v),
        "softmax_inner": c(L.Softmax(axis=1), v),
        "softmax_two_axes": c(L.Softmax(axis=[1, 2]), v),
        "activation_of_layer": c(L.Dense(3, activation=L.LeakyReLU(negative_slope=0.4)), x(2, 4)),
    }


def identities() -> dict[str, Case]:
    return {
        "dropout": c(L.Dropout(0.5), x(2, 3)),
        "noise": c(L.GaussianNoise(0.5), x(2, 3)),
        "alpha": c(L.AlphaDropout(0.5), x(2, 3)),
        "spatial": c(L.SpatialDropout2D(0.5), x(1, 2, 2, 3)),
        "identity": c(L.Identity(), x(2, 3)),
    }


def embeddings() -> dict[str, Case]:
    steps = x(2, 4, 3)
    steps[0, 2] = steps[1, 0] = 0.5
    return {
        "rows": c(L.Embedding(7, 3), np.array([[0, 6, 2], [3, 3, 1]], np.int32)),
        "floats": c(L.Embedding(7, 3), np.array([[0, 6, 2.0]], np.float32)),
        "masking": c(L.Masking(0.5), steps),
    }


def recurrents() -> dict[str, Case]:
    s, h, k = x(2, 5, 3), x(2, 4), x(2, 4)
    mask = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], bool)
    return {
        "lstm": c(L.LSTM(4), s),
        "lstm_sequences": c(L.LSTM(4, return_sequences=True), s),
        "lstm_backwards": c(L.LSTM(4, return_sequences=True, go_backwards=True), s),
        "lstm_states": c(L.LSTM(4, return_state=True), s),
        "lstm_given": c(L.LSTM(4, return_sequences=True, return_state=True), s, initial_state=[h, k]),
        "lstm_masked": c(L.LSTM(4, return_sequences=True), s, mask=mask),
        "lstm_masked_last": c(L.LSTM(4), s, mask=mask),
        "lstm_functions": c(L.LSTM(4, activation="softsign", recurrent_activation="hard_sigmoid"), s),
        "lstm_no_bias": c(L.LSTM(4, use_bias=False), s),
        "gru": c(L.GRU(4), s),
        "gru_before": c(L.GRU(4, reset_after=False, return_sequences=True), s),
        "gru_backwards": c(L.GRU(4, go_backwards=True), s),
        "gru_states": c(L.GRU(4, return_state=True, return_sequences=True), s, initial_state=h),
        "gru_masked": c(L.GRU(4, return_sequences=True), s, mask=mask),
        "gru_functions": c(L.GRU(4, activation="relu", recurrent_activation="hard_sigmoid"), s),
        "gru_functions_before": c(L.GRU(4, activation="elu", reset_after=False), s),
        "gru_no_bias": c(L.GRU(4, use_bias=False), s),
        "simple": c(L.SimpleRNN(4), s),
        "simple_relu": c(L.SimpleRNN(4, activation="relu", return_sequences=True, use_bias=False), s),
        "simple_masked": c(L.SimpleRNN(4, activation="linear"), s, mask=mask),
    }


def wrappers() -> dict[str, Case]:
    s = x(2, 5, 3)
    mask = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], bool)
    return {
        "concat": c(L.Bidirectional(L.LSTM(3)), s),
        "concat_sequences": c(L.Bidirectional(L.GRU(3, return_sequences=True)), s),
        "sum": c(L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode="sum"), s),
        "ave": c(L.Bidirectional(L.SimpleRNN(3), merge_mode="ave"), s),
        "mul": c(L.Bidirectional(L.LSTM(3), merge_mode="mul"), s),
        "both": c(L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode=None), s),
        "states": c(L.Bidirectional(L.LSTM(3, return_state=True)), s),
        "masked": c(L.Bidirectional(L.LSTM(3, return_sequences=True)), s, mask=mask),
        "two_layers": c(L.Bidirectional(L.LSTM(3), backward_layer=L.LSTM(2, go_backwards=True)), s),
        "time_dense": c(L.TimeDistributed(L.Dense(2, activation="relu")), s),
        "time_conv": c(L.TimeDistributed(L.Conv2D(2, 3)), x(1, 3, 5, 5, 2)),
        "time_norm": c(L.TimeDistributed(L.BatchNormalization()), s),
    }


def attentions() -> dict[str, Case]:
    q, v, k, pic = x(2, 4, 6), x(2, 3, 6), x(2, 3, 6), x(1, 3, 2, 4)
    mask = np.array([[1, 1, 0], [0, 1, 1]], bool)
    both = np.ones((2, 4, 3), bool)
    each = np.arange(24).reshape(2, 4, 3) * 5 % 7 < 4
    each[..., 0] = True  # each query sees a key
    both[0, 1, 2] = both[1, 0, 0] = False
    return {
        "heads": c(L.MultiHeadAttention(2, 3), q, v),
        "heads_key": c(L.MultiHeadAttention(2, 3, value_dim=5, output_shape=7), q, v, k),
        "heads_mask": c(L.MultiHeadAttention(2, 3, use_bias=False), q, v, attention_mask=both),
        "heads_causal": c(L.MultiHeadAttention(2, 3), q, q, use_causal_mask=True),
        "heads_scores": c(L.MultiHeadAttention(2, 3), q, v, return_attention_scores=True),
        "heads_picture": c(L.MultiHeadAttention(2, 3), pic, pic),
        "heads_axis": c(L.MultiHeadAttention(2, 3, attention_axes=[2]), pic, pic),
        "grouped": c(L.GroupQueryAttention(3, 4, 2), q, v),
        "grouped_causal": c(L.GroupQueryAttention(3, 4, 2, use_bias=False), q, q, use_causal_mask=True),
        "dot": c(L.Attention(), [q, v]),
        "dot_scale": c(L.Attention(use_scale=True), [q, v, k]),
        "dot_causal": c(L.Attention(), [q, q], use_causal_mask=True),
        "dot_masked": c(L.Attention(), [q, v], mask=[None, mask]),
        "concat": c(L.Attention(score_mode="concat", use_scale=True), [q, v]),
        "additive": c(L.AdditiveAttention(), [q, v, k]),
        "additive_plain": c(L.AdditiveAttention(use_scale=False), [q, v], return_attention_scores=True),
        "heads_gate": c(L.MultiHeadAttention(2, 3, value_dim=5, use_gate=True), q, v),
        "heads_gate_axis": c(L.MultiHeadAttention(2, 3, attention_axes=[2], use_gate=True), pic, pic),
        "heads_mask_each": c(L.MultiHeadAttention(2, 3), q, v, attention_mask=each),
        "heads_mask_plane": c(L.MultiHeadAttention(2, 3), q, v, attention_mask=each[0]),
        "heads_mask_plane_causal": c(
            L.MultiHeadAttention(2, 3), v, k, attention_mask=each[0, 1:], use_causal_mask=True
        ),
        "heads_mask_heads": c(L.MultiHeadAttention(2, 3), q, v, attention_mask=np.stack([each, each[::-1]], 1)),
        "grouped_gate": c(L.GroupQueryAttention(3, 4, 2, use_gate=True), q, v),
        "heads_value_mask": c(L.MultiHeadAttention(2, 3), q, v, value_mask=mask),
        "heads_key_mask": c(L.MultiHeadAttention(2, 3), q, v, k, key_mask=mask, attention_mask=each),
        "grouped_query_mask": c(L.GroupQueryAttention(3, 4, 2), q, v, query_mask=each[:, :, 1]),
        "grouped_mask_plane": c(L.GroupQueryAttention(3, 4, 2), q, v, attention_mask=each[1]),
    }


def conv_lstms() -> dict[str, Case]:
    clip = x(1, 3, 5, 4, 2)
    return {
        "one_axis": c(L.ConvLSTM1D(2, 3), x(2, 3, 6, 2)),
        "two_axes": c(L.ConvLSTM2D(2, 3, padding="same", return_sequences=True), clip),
        "even": c(L.ConvLSTM2D(2, 2, strides=2, padding="same", go_backwards=True), clip),
        "states": c(L.ConvLSTM2D(2, 3, return_state=True, use_bias=False), clip),
        "functions": c(L.ConvLSTM2D(2, 3, activation="relu", recurrent_activation="hard_sigmoid"), clip),
        "three_axes": c(L.ConvLSTM3D(2, 2), x(1, 2, 3, 3, 3, 1)),
    }


def cells() -> dict[str, Case]:
    s = x(2, 5, 3)
    mask = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], bool)
    return {
        "lstm": c(L.RNN(L.LSTMCell(4)), s),
        "gru": c(L.RNN(L.GRUCell(4), return_sequences=True, go_backwards=True), s),
        "simple": c(L.RNN(L.SimpleRNNCell(4, use_bias=False), return_state=True), s),
        "stacked": c(L.RNN([L.LSTMCell(4), L.LSTMCell(3)], return_sequences=True), s),
        "stacked_gru": c(L.RNN([L.GRUCell(4), L.GRUCell(3)]), s),
        "masked": c(L.RNN(L.LSTMCell(4), return_sequences=True), s, mask=mask),
        "mixed": c(L.RNN([L.LSTMCell(4), L.SimpleRNNCell(2, use_bias=False), L.GRUCell(3)]), s),
    }


FILES = {
    "conv": convolutions,
    "conv_transpose": transposed,
    "depthwise_conv": depthwise,
    "pooling": pools,
    "global_pooling": global_pools,
    "batch_normalization": batch_normalizations,
    "layer_normalization": layer_normalizations,
    "group_normalization": group_normalizations,
    "unit_normalization": unit_normalizations,
    "normalization": normalizations,
    "dense": dense,
    "resizing": resizings,
    "padding": paddings,
    "shaping": shapings,
    "merging": merges,
    "activations": activations,
    "identity": identities,
    "embedding": embeddings,
    "recurrent": recurrents,
    "wrappers": wrappers,
    "attention": attentions,
    "conv_lstm": conv_lstms,
    "cells": cells,
}


def randomise(layer: Any) -> None:
    """Set weights that differ from their initial values, and variances that are positive."""
    if hasattr(layer, "keep"):
        return
    new = []
    for w in layer.weights:
        low = 0.5 if "variance" in w.name else -1.0
        new.append(noise.uniform(low, 1.0, tuple(w.shape)).astype(np.float32))
    layer.set_weights(new)


def record(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the case as JSON and arrays."""
    layer, inputs, call = case.layer, case.inputs, case.call
    layer(*inputs, **call)
    randomise(layer)
    outputs = layer(*inputs, **call)
    arrays: list[Any] = []

    def placed(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return {"input": len(arrays) - 1}
        return [placed(v) for v in value] if isinstance(value, (list, tuple)) else value

    args = placed(list(inputs))
    kwargs = {key: placed(call[key]) for key in sorted(call)}
    outputs = [keras.ops.convert_to_numpy(o) for o in keras.tree.flatten(outputs)]
    spec = {
        "class_name": type(layer).__name__,
        "config": json.loads(json.dumps(layer.get_config(), default=keras.saving.serialize_keras_object)),
        "args": args,
        "kwargs": kwargs,
    }
    found = {f"in{i}": a for i, a in enumerate(arrays)}
    found.update({f"w{i}": np.asarray(w) for i, w in enumerate(layer.get_weights())})
    found.update({f"out{i}": o for i, o in enumerate(outputs)})
    return spec, found


def main(names: list[str]) -> None:
    only_new = "--new" in names
    for file in [name for name in names if name != "--new"] or FILES:
        noise.bit_generator.state = np.random.default_rng(0).bit_generator.state
        keras.utils.set_random_seed(0)
        stored: dict[str, Any] = dict(np.load(HERE / f"{file}.npz")) if only_new else {}
        for name, case in FILES[file]().items():
            if f"{name}.json" in stored:
                continue
            spec, arrays = record(case)
            stored[f"{name}.json"] = np.array(json.dumps(spec))
            stored.update({f"{name}.{key}": array for key, array in arrays.items()})
        np.savez_compressed(HERE / f"{file}.npz", **stored)
        print(file, len(stored), (HERE / f"{file}.npz").stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1:])
