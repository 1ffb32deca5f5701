"""Operations that move blocks of pixels into channels or into the batch, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers._blocks import batch_to_space, space_to_batch
from anylayer.layers.tensorflow._base import Enum, TensorFlowLayer, attribute, integers, layer, need, pairs_of
from anylayer.layers.tensorflow._spatial import channels_first, extent, restored, spatial, windows
from anylayer.network import Array


class _Block(TensorFlowLayer):
    block_size: int = attribute("int64")
    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")


@layer("SpaceToDepth")
class SpaceToDepth(_Block):
    """Move each block of block_size x block_size pixels into channels.

    (N, H, W, C) to (N, H / b, W / b, b * b * C) for block size b. Channel (i * b + j) * C + c of the output is
    channel c of the pixel in row i and column j of the block.
    Source: tf.raw_ops.SpaceToDepth; tensorflow/core/kernels/spacetodepth_op.cc.
    """

    def forward(self, x: Array) -> Any:
        return restored(ops.space_to_depth(channels_first(x, self.data_format), self.block_size), self.data_format)


@layer("DepthToSpace")
class DepthToSpace(_Block):
    """Move channels into blocks of block_size x block_size pixels: the inverse of SpaceToDepth.

    (N, H, W, b * b * C) to (N, H * b, W * b, C) for block size b.
    Source: tf.raw_ops.DepthToSpace; tensorflow/core/kernels/depthtospace_op.cc.
    """

    def forward(self, x: Array) -> Any:
        y = ops.depth_to_space(channels_first(x, self.data_format), self.block_size, mode="DCR")
        return restored(y, self.data_format)


@layer("SpaceToBatchND")
class SpaceToBatchND(TensorFlowLayer):
    """Pad the spatial axes with zeros and move each block of pixels into the batch.

    (N, s1, ..., sM, ...) to (N * prod(block), (s1 + pads1) / block1, ...). block_shape (M,) and paddings (M, 2)
    are constants. Batch k * N + n holds the pixels at place k of the blocks of image n.
    Source: tf.raw_ops.SpaceToBatchND; tensorflow/core/kernels/spacetobatch_op.cc.
    """

    def forward(self, x: Array, block_shape: Array, paddings: Array) -> Array:
        block = integers(block_shape, "block_shape")
        return space_to_batch(x, block, pairs_of(paddings, len(block), "paddings"))


@layer("BatchToSpaceND")
class BatchToSpaceND(TensorFlowLayer):
    """Move batches into blocks of pixels and crop: the inverse of SpaceToBatchND.

    (N * prod(block), s1, ..., sM, ...) to (N, s1 * block1 - crops1, ...). block_shape (M,) and crops (M, 2) are
    constants.
    Source: tf.raw_ops.BatchToSpaceND; tensorflow/core/kernels/batchtospace_op.cc.
    """

    def forward(self, x: Array, block_shape: Array, crops: Array) -> Any:
        block = integers(block_shape, "block_shape")
        return batch_to_space(x, block, pairs_of(crops, len(block), "crops"))


@layer("SpaceToBatch")
class SpaceToBatch(TensorFlowLayer):
    """Apply SpaceToBatchND to height and width with blocks of block_size x block_size.

    (N, H, W, C) with constant paddings (2, 2). Source: tf.raw_ops.SpaceToBatch;
    tensorflow/core/kernels/spacetobatch_op.cc.
    """

    block_size: int = attribute("int64")

    def forward(self, x: Array, paddings: Array) -> Array:
        return space_to_batch(x, [self.block_size] * 2, pairs_of(paddings, 2, "paddings"))


@layer("BatchToSpace")
class BatchToSpace(TensorFlowLayer):
    """Apply BatchToSpaceND to height and width with blocks of block_size x block_size.

    (N, H, W, C) with constant crops (2, 2). Source: tf.raw_ops.BatchToSpace;
    tensorflow/core/kernels/batchtospace_op.cc.
    """

    block_size: int = attribute("int64")

    def forward(self, x: Array, crops: Array) -> Any:
        return batch_to_space(x, [self.block_size] * 2, pairs_of(crops, 2, "crops"))


@layer("ExtractImagePatches")
class ExtractImagePatches(TensorFlowLayer):
    """Return the pixels of each window as channels.

    (N, H, W, C) to (N, rows, columns, kh * kw * C) for windows of kh x kw pixels. Channel (i * kw + j) * C + c is
    channel c of the pixel in row i and column j of the window. rates are the dilations of the window.
    Source: tf.raw_ops.ExtractImagePatches; tensorflow/core/kernels/image/extract_image_patches_op.cc.
    """

    ksizes: tuple[int, ...] = attribute("int64", repeated=True)
    strides: tuple[int, ...] = attribute("int64", repeated=True)
    rates: tuple[int, ...] = attribute("int64", repeated=True)
    padding: str = attribute(Enum("SAME", "VALID"))

    def forward(self, x: Array) -> Array:
        need(len(x.shape) == 4, f"the input must have 4 axes, got shape {tuple(x.shape)}")
        kernel, steps, rates = (
            spatial(v, "NHWC", 4, n)
            for v, n in ((self.ksizes, "ksizes"), (self.strides, "strides"), (self.rates, "rates"))
        )
        reach = [extent(k, r) for k, r in zip(kernel, rates)]
        pairs = windows(self.padding, x.shape[1:3], reach, steps)
        need(
            kernel[0] * kernel[1] <= 4096,
            f"a window of {kernel[0]} x {kernel[1]} pixels exceeds the limit of 4096",
        )
        wide = np.pad(x, [(0, 0), *pairs, (0, 0)])
        counts = [(n - e) // s + 1 for n, e, s in zip(wide.shape[1:3], reach, steps)]
        parts = []
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                rows, columns = (
                    slice(c * r, c * r + (n - 1) * s + 1, s) for c, r, n, s in zip((i, j), rates, counts, steps)
                )
                parts.append(wide[:, rows, columns])
        return np.concatenate(parts, axis=3)
