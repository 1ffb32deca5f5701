"""Operations that move blocks of pixels into channels or into the batch, and back; Dilation2D."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import channels_first, integers, restored
from anylayer.layers._arrays import batch_to_space, space_to_batch
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, pairs_of
from anylayer.layers.tensorflow.windows import patches, spatial
from anylayer.network import Function


def _by(function: Function) -> Function:
    """Return a function of images in any layout, from one of images (N, C, H, W)."""
    return lambda x, block_size, data_format: restored(
        function(channels_first(x, data_format), block_size), data_format
    )


def _patches(x: Array, ksizes: Any, strides: Any, rates: Any, padding: str) -> Array:
    need(len(x.shape) == 4, f"the input must have 4 axes, got shape {tuple(x.shape)}")
    named = ((ksizes, "ksizes"), (strides, "strides"), (rates, "rates"))
    kernel, steps, dilations = (spatial(values, "NHWC", 4, what) for values, what in named)
    return np.concatenate(patches(x, kernel, steps, dilations, padding), axis=3)


def _dilation(x: Array, w: Array, strides: Any, rates: Any, padding: str) -> Array:
    need(
        len(x.shape) == 4 and len(w.shape) == 3 and w.shape[2] == x.shape[3],
        f"expected images (N, H, W, C) and a filter (h, w, C), got {tuple(x.shape)} and {tuple(w.shape)}",
    )
    steps, dilations = (spatial(v, "NHWC", 4, n) for v, n in ((strides, "strides"), (rates, "rates")))
    pixels = patches(x, w.shape[:2], steps, dilations, padding, float(np.finfo(np.float32).min))
    cells = [w[i, j] for i in range(w.shape[0]) for j in range(w.shape[1])]
    return reduce(np.maximum, [p + c for p, c in zip(pixels, cells)])


_BLOCK = {"block_size": attribute("int64"), "data_format": attribute(Enum("NHWC", "NCHW"), "NHWC")}
_PER_AXIS = attribute("int64", repeated=True)

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "SpaceToDepth": row("Move each block of block_size x block_size pixels into channels.",
            _by(ops.space_to_depth), "spacetodepth_op.cc",
            "(N, H, W, C) to (N, H / b, W / b, b * b * C) for block size b. Channel (i * b + j) * C + c of the "
            "output is channel c of the pixel in row i and column j of the block.", **_BLOCK),
        "DepthToSpace": row("Move channels into blocks of pixels: the inverse of SpaceToDepth.",
            _by(ops.depth_to_space), "depthtospace_op.cc",
            "(N, H, W, b * b * C) to (N, H * b, W * b, C) for block size b.", **_BLOCK),
        "SpaceToBatchND": row("Pad the spatial axes with zeros and move each block of pixels into the batch.",
            lambda x, block_shape, paddings: space_to_batch(
                x, block_shape, pairs_of(paddings, len(block_shape), "paddings")),
            "spacetobatch_op.cc",
            "(N, s1, ..., sM, ...) to (N * prod(block), (s1 + pads1) / block1, ...). block_shape (M,) and "
            "paddings (M, 2) are constants. Batch k * N + n holds the pixels at place k of the blocks of image n.",
            block_shape=integers),
        "BatchToSpaceND": row("Move batches into blocks of pixels and crop: the inverse of SpaceToBatchND.",
            lambda x, block_shape, crops: batch_to_space(
                x, block_shape, pairs_of(crops, len(block_shape), "crops")),
            "batchtospace_op.cc",
            "(N * prod(block), s1, ..., sM, ...) to (N, s1 * block1 - crops1, ...). block_shape (M,) and crops "
            "(M, 2) are constants.", block_shape=integers),
        "SpaceToBatch": row("Apply SpaceToBatchND to height and width with blocks of block_size x block_size.",
            lambda x, paddings, block_size: space_to_batch(x, [block_size] * 2, pairs_of(paddings, 2, "paddings")),
            "spacetobatch_op.cc", "(N, H, W, C) with constant paddings (2, 2).", block_size=attribute("int64")),
        "BatchToSpace": row("Apply BatchToSpaceND to height and width with blocks of block_size x block_size.",
            lambda x, crops, block_size: batch_to_space(x, [block_size] * 2, pairs_of(crops, 2, "crops")),
            "batchtospace_op.cc", "(N, H, W, C) with constant crops (2, 2).", block_size=attribute("int64")),
        "ExtractImagePatches": row("Return the pixels of each window as channels.", _patches,
            "image/extract_image_patches_op.cc",
            "(N, H, W, C) to (N, rows, columns, kh * kw * C) for windows of kh x kw pixels. Channel "
            "(i * kw + j) * C + c is channel c of the pixel in row i and column j of the window. rates are "
            "the dilations of the window.",
            ksizes=_PER_AXIS, strides=_PER_AXIS, rates=_PER_AXIS, padding=attribute(Enum("SAME", "VALID"))),
        "Dilation2D": row("Compute the maximum over each window of the values plus a filter.", _dilation,
            "dilation_ops.cc",
            "(N, H, W, C) with a filter (height, width, C) to (N, H', W', C). rates are the dilations of the "
            "window. Padded cells hold the lowest float32, so that they are never the maximum.",
            strides=_PER_AXIS, rates=_PER_AXIS, padding=attribute(Enum("SAME", "VALID"))),
    },
)  # fmt: skip
