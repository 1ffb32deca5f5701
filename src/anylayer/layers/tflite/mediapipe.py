"""Custom operators of MediaPipe. Their options are structures in C, or FlexBuffers, which the reader decodes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, need
from anylayer.layer.arguments import same_pads
from anylayer.layers._table import of_tensorflow, operators, row
from anylayer.layers.tflite._base import TFLiteLayer, activate
from anylayer.layers.tflite.windows import transpose_convolution

_PADDINGS = {1: "SAME", 2: "VALID"}
_ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")
_MAX_CELLS = 1 << 10
"""Cells of a window."""


def _structure(options: bytes, count: int) -> tuple[int, ...]:
    """Return the first integers of a structure in C, the first of which are positive."""
    need(len(options) >= 4 * count, f"its options have {len(options)} bytes, expected at least {4 * count}")
    numbers = struct.unpack_from(f"<{count}i", options)
    need(numbers[0] in _PADDINGS, f"its padding must be 1 (SAME) or 2 (VALID), got {numbers[0]}")
    need(min(numbers[:5]) > 0, f"its strides and sizes must be positive, got {numbers[1:5]}")
    return numbers


def _transpose_convolution(x: Array, w: Array, bias: Array, *, custom_options: bytes) -> Array:
    padding, stride_w, stride_h = _structure(custom_options, 3)
    sizes = []
    for size, kernel, stride in zip(x.shape[1:3], w.shape[1:3], (stride_h, stride_w)):
        cut = max(0, kernel - (size - 1) % stride - 1) if padding == 1 else 0
        sizes.append(stride * (size - 1) + kernel - cut)
    shape, how = [x.shape[0], *sizes, w.shape[0]], {"stride_h": stride_h, "stride_w": stride_w}
    return transpose_convolution(shape, w, x, bias, padding=_PADDINGS[padding], **how)


def _pool_with_argmax(x: Array, *, custom_options: bytes) -> tuple[Array, Array]:
    padding, stride_w, stride_h, width, height, activation = _structure(custom_options, 6)
    need(0 <= activation < len(_ACTIVATIONS), f"its activation {activation} is not supported")
    y, index = of_tensorflow("MaxPoolWithArgmax")(
        x, Targmax="int64", include_batch_in_index=False, data_format="NHWC", ksize=[1, height, width, 1],
        strides=[1, stride_h, stride_w, 1], padding=_PADDINGS[padding], explicit_paddings=(),
    )  # fmt: skip
    reach = (height, width) if padding == 1 else (1, 1)  # windows of one cell need no padding
    pads = same_pads(x.shape[1:3], reach, (stride_h, stride_w))
    cell = index // x.shape[3]
    rows, columns = (
        (np.arange(count) * stride - before).reshape(shape)
        for count, stride, (before, _), shape in zip(
            y.shape[1:3], (stride_h, stride_w), pads, ((1, -1, 1, 1), (1, 1, -1, 1))
        )
    )
    inside = (cell // x.shape[2] - rows) * width + (cell % x.shape[2] - columns)
    return activate(y, _ACTIVATIONS[activation]), inside.astype(np.float32) + np.float32(0.1)


def _unpool(x: Array, indices: Array, *, custom_options: bytes) -> Array:
    _, stride_w, stride_h, width, height = _structure(custom_options, 5)
    need((stride_h, stride_w) == (height, width), "its strides must be equal to the sizes of its window")
    need(height * width <= _MAX_CELLS, f"a window of {height} x {width} cells exceeds the limit of {_MAX_CELLS}")
    n, rows, columns, channels = x.shape
    cells = np.arange(height * width, dtype=np.int32).reshape(1, 1, height, 1, width, 1)
    parts = (n, rows, 1, columns, 1, channels)
    wide = np.where(indices.astype(np.int32).reshape(parts) == cells, x.reshape(parts), np.float32(0))
    return wide.reshape(n, rows * height, columns * width, channels)


def _affine(matrix: Array) -> Array:
    """Return the rows of x and y of a matrix (1, 4, 4): (2, 4)."""
    need(tuple(matrix.shape) == (1, 4, 4), f"the matrix must be (1, 4, 4), got {tuple(matrix.shape)}")
    return matrix[0, :2]


def _transform_landmarks(x: Array, matrix: Array) -> Array:
    need(len(x.shape) == 3 and x.shape[0] == 1 and x.shape[2] in (2, 3),
        f"landmarks must be (1, N, 2) or (1, N, 3), got {tuple(x.shape)}")  # fmt: skip
    m = _affine(matrix)
    y: Array = np.matmul(x[..., :2], m[:, :2].T) + m[:, 3]
    return y if x.shape[2] == 2 else np.concatenate([y, x[..., 2:]], axis=-1)


def _transform_image(x: Array, matrix: Array, *, output_height: int, output_width: int) -> Array:
    need(len(x.shape) == 4 and x.shape[0] == 1, f"the image must be (1, H, W, C), got {tuple(x.shape)}")
    sizes = (output_height, output_width)
    need(min(sizes) > 0 and max(sizes) <= 1 << 14, f"its output of {sizes} pixels is not supported")
    m, (height, width) = _affine(matrix), x.shape[1:3]
    grid = np.meshgrid(np.arange(output_width), np.arange(output_height))
    points = np.stack(grid, axis=-1).reshape(-1, 2).astype(np.float32) + np.float32(0.5)
    at = np.matmul(points, m[:, :2].T) + m[:, 3] - np.float32(0.5)  # (points, 2): x and y in pixels
    last = np.array([width - 1, height - 1], np.float32)
    is_inside = ((at >= 0) & (at <= last)).all(axis=-1).reshape(1, *sizes, 1)
    grid = (at / np.maximum(last, 1) * 2 - 1).reshape(1, *sizes, 2)
    y = ops.grid_sample(x.transpose(0, 3, 1, 2), grid, align_corners=True).transpose(0, 2, 3, 1)
    return np.where(is_inside, y, np.float32(0))


def _matrix_of_landmarks(
    x: Array, *, subset_idxs: Sequence[int], left_rotation_idx: int, right_rotation_idx: int,
    target_rotation_radians: float, output_height: int, output_width: int, scale_x: float, scale_y: float,
) -> Array:  # fmt: skip
    need(len(x.shape) == 3 and x.shape[2] == 3, f"landmarks must be (1, N, 3), got {tuple(x.shape)}")
    indices = [*subset_idxs, left_rotation_idx, right_rotation_idx]
    need(subset_idxs and min(indices) >= 0 and max(indices) < x.shape[1], f"there are {x.shape[1]} landmarks, "
        f"but its indices are {min(indices, default=0)} to {max(indices)}, and at least one")  # fmt: skip
    need(min(output_height, output_width, scale_x, scale_y) > 0, "its scales and sizes must be positive")
    left, right = x[0, left_rotation_idx], x[0, right_rotation_idx]
    r = np.float32(target_rotation_radians) - np.arctan2(right[1] - left[1], right[0] - left[0])
    cos, sin = np.cos(r), np.sin(r)
    points = x[0][np.array(subset_idxs)]
    along, across = points[:, 0] * cos - points[:, 1] * sin, points[:, 0] * sin + points[:, 1] * cos
    low, high = (np.stack([f(along), f(across)]) for f in (np.min, np.max))
    center, size = (low + high) / np.float32(2), high - low
    turn = np.stack([cos, sin, -sin, cos]).reshape(2, 2)
    sizes = np.array([output_width, output_height], np.float32)
    scaled = turn * (size * np.array([scale_x, scale_y], np.float32) / sizes)
    shift = np.matmul(turn, center[:, None]) - np.matmul(scaled, sizes[:, None] / np.float32(2))
    top = np.concatenate([scaled, np.zeros((2, 1), np.float32), shift], axis=1)
    return np.concatenate([top, np.eye(4, dtype=np.float32)[2:]])[None]


_INT, _REAL = attribute("int32"), attribute("float")
_SIZES = {"output_height": _INT, "output_width": _INT}
_BYTES = {"custom_options": attribute("any")}
_POOL = "The options are a structure TfLitePoolParams, whose strides and sizes are those of the window."
_SOURCE = "Source: mediapipe/util/tflite/operations/{}.cc of MediaPipe."

operators(
    TFLiteLayer,
    _SOURCE,
    {
        "Convolution2DTransposeBias": row("Compute the transposed convolution of images, and add a bias.",
            _transpose_convolution, "transpose_conv_bias",
            "Inputs: x (N, H, W, C), the filter (M, height, width, C), the bias (M,). The options are a structure "
            "TfLiteTransposeConvParams. With padding VALID, H' = stride * (H - 1) + height, and less with SAME.",
            **_BYTES),
        "MaxPoolingWithArgmax2D": row("Compute the maximum of each window, and its index there plus 0.1.",
            _pool_with_argmax, "max_pool_argmax", f"(N, H, W, C) to two outputs (N, H', W', C). {_POOL}",
            **_BYTES),
        "MaxUnpooling2D": row("Write each value to its index in a window of zeros.", _unpool, "max_unpooling",
            f"Values and indices (N, H, W, C) to (N, H * height, W * width, C). {_POOL}", **_BYTES),
        "TransformLandmarks": row("Transform the x and y of landmarks by a matrix.",
            _transform_landmarks, "transform_landmarks",
            "Inputs: landmarks (1, N, 2) or (1, N, 3), and the matrix (1, 4, 4)."),
        "TransformTensorBilinear": row("Sample an image (1, H, W, C) at the points of a grid under a matrix.",
            _transform_image, "transform_tensor_bilinear",
            "The matrix (1, 4, 4) maps the centers of the output's pixels to those of the image. Points outside "
            "the image give 0.", **_SIZES),
        "Landmarks2TransformMatrix": row("Compute the matrix that crops the region of landmarks.",
            _matrix_of_landmarks, "landmarks_to_transform_matrix",
            "(1, N, 3) to (1, 4, 4). The region has the rotation between two landmarks, and contains those of "
            "subset_idxs.",
            subset_idxs=attribute("int32", repeated=True), left_rotation_idx=_INT, right_rotation_idx=_INT,
            target_rotation_radians=_REAL, scale_x=_REAL, scale_y=_REAL, **_SIZES),
    },
)  # fmt: skip
