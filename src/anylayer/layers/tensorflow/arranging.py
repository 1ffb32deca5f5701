"""Operations that rearrange elements: concat, split, transpose, repeat, reverse and pad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.errors import plural
from anylayer.layer.arguments import part_sizes
from anylayer.layers.tensorflow._base import (
    TensorFlowLayer,
    attribute,
    axes_of,
    axis_of,
    constant,
    count_of,
    integer,
    integers,
    layer,
    need,
    pairs_of,
)
from anylayer.network import Array


class _CountedInputs(TensorFlowLayer):
    """An operation with one result, a list of outputs, whose length the attribute `counted` states."""

    counted = "num_split"

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        return (("output", count_of(attr, cls.counted)),)


@layer("Concat")
class Concat(TensorFlowLayer):
    """Concatenate arrays along an axis, which is the first input.

    Inputs: the axis, a constant; then arrays of equal shapes except along the axis.
    Graphs of the first releases of TensorFlow contain it; ConcatV2 replaced it.
    Source: tf.raw_ops.Concat; tensorflow/core/kernels/concat_op.cc.
    """

    def forward(self, axis: Array, *xs: Array) -> Array:
        need(xs, "needs 1 array or more to concatenate, got 0")
        return np.concatenate(xs, axis=axis_of(integer(axis, "concat_dim"), len(xs[0].shape), "concat_dim"))


@layer("ConcatV2")
class ConcatV2(TensorFlowLayer):
    """Concatenate arrays along an axis, which is the last input.

    Inputs: arrays of equal shapes except along the axis; then the axis, a constant.
    Source: tf.raw_ops.ConcatV2; tensorflow/core/kernels/concat_op.cc.
    """

    def forward(self, *inputs: Array) -> Array:
        need(len(inputs) >= 2, f"needs 1 array or more and an axis, got {plural(len(inputs), 'input')}")
        *xs, axis = inputs
        return np.concatenate(xs, axis=axis_of(integer(axis, "axis"), len(xs[0].shape)))


@layer("Pack")
class Pack(TensorFlowLayer):
    """Stack arrays of equal shape along a new axis.

    The output has one axis more than each input; `axis` is its index in the output.
    Source: tf.raw_ops.Pack; tensorflow/core/kernels/pack_op.cc.
    """

    axis: int = attribute("int64", 0)

    def forward(self, *xs: Array) -> Array:
        need(xs, "needs 1 input or more, got 0")
        return np.stack(xs, axis=axis_of(self.axis, len(xs[0].shape) + 1))


@layer("Unpack")
class Unpack(_CountedInputs):
    """Split an array into its `num` slices along an axis, and remove the axis.

    Each of the `num` outputs has one axis less than x. Axis `axis` of x must have size `num`.
    Source: tf.raw_ops.Unpack; tensorflow/core/kernels/unpack_op.cc.
    """

    axis: int = attribute("int64", 0)
    num: int = attribute("int64")
    counted = "num"

    def forward(self, x: Array) -> list[Array]:
        axis = axis_of(self.axis, len(x.shape))
        need(x.shape[axis] == self.num, f"num={self.num} is not the size of axis {axis} of shape {tuple(x.shape)}")
        return [np.take(x, i, axis=axis) for i in range(self.num)]


@layer("Split")
class Split(_CountedInputs):
    """Split an array into `num_split` equal parts along an axis.

    Inputs: the axis, a constant; then the array. `num_split` must divide the size of the axis.
    Source: tf.raw_ops.Split; tensorflow/core/kernels/split_op.cc.
    """

    num_split: int = attribute("int64")

    def forward(self, axis: Array, x: Array) -> list[Array]:
        over = axis_of(integer(axis, "split_dim"), len(x.shape), "split_dim")
        need(
            x.shape[over] % self.num_split == 0,
            f"num_split={self.num_split} does not divide axis {over} of size {x.shape[over]}",
        )
        return list(np.split(x, self.num_split, axis=over))


@layer("SplitV")
class SplitV(_CountedInputs):
    """Split an array into parts of given sizes along an axis.

    Inputs: the array, the sizes and the axis; both of the latter are constants. One size may be -1, which stands
    for the rest of the axis.
    Source: tf.raw_ops.SplitV; tensorflow/core/kernels/split_v_op.cc.
    """

    num_split: int = attribute("int64")

    def forward(self, x: Array, sizes: Array, axis: Array) -> list[Array]:
        over = axis_of(integer(axis, "split_dim"), len(x.shape), "split_dim")
        parts = integers(sizes, "size_splits")
        need(len(parts) == self.num_split, f"size_splits must be {self.num_split} sizes, got {parts}")
        parts = part_sizes(parts, x.shape[over], "size_splits")
        return list(np.split(x, np.cumsum(parts)[:-1].tolist(), axis=over))


@layer("Transpose")
class Transpose(TensorFlowLayer):
    """Permute the axes of an array: output axis i is input axis perm[i].

    `perm` is a constant that names each axis of x once.
    Source: tf.raw_ops.Transpose; tensorflow/core/kernels/transpose_op.cc.
    """

    def forward(self, x: Array, perm: Array) -> Array:
        order = axes_of(integers(perm, "perm"), len(x.shape), "perm")
        need(len(order) == len(x.shape), f"perm must name {len(x.shape)} axes, got {order}")
        return x.transpose(order)


@layer("Tile")
class Tile(TensorFlowLayer):
    """Repeat an array multiples[i] times along each axis i.

    `multiples` is a constant with one number per axis of x.
    Source: tf.raw_ops.Tile; tensorflow/core/kernels/tile_ops.cc.
    """

    def forward(self, x: Array, multiples: Array) -> Array:
        times = integers(multiples, "multiples")
        need(
            len(times) == len(x.shape) and all(t >= 0 for t in times),
            f"multiples must be {len(x.shape)} numbers, one per axis, got {times}",
        )
        return np.tile(x, times)


@layer("ReverseV2")
class ReverseV2(TensorFlowLayer):
    """Reverse the order of the elements along the given axes.

    The output has the shape of x. `axis` is a constant list of axes.
    Source: tf.raw_ops.ReverseV2; tensorflow/core/kernels/reverse_op.cc.
    """

    def forward(self, x: Array, axes: Array) -> Array:
        return np.flip(x, tuple(axes_of(integers(axes, "axis"), len(x.shape))))


@layer("Pad")
class Pad(TensorFlowLayer):
    """Pad an array with zeros.

    `paddings` is a constant of shape (rank, 2): the numbers of elements before and after each axis.
    Source: tf.raw_ops.Pad; tensorflow/core/kernels/pad_op.cc.
    """

    def forward(self, x: Array, paddings: Array) -> Array:
        return np.pad(x, pairs_of(paddings, len(x.shape), "paddings"))


@layer("PadV2")
class PadV2(TensorFlowLayer):
    """Pad an array with a given value.

    `paddings` is a constant of shape (rank, 2): the numbers of elements before and after each axis. The value is a
    constant scalar.
    Source: tf.raw_ops.PadV2; tensorflow/core/kernels/pad_op.cc.
    """

    def forward(self, x: Array, paddings: Array, value: Array) -> Array:
        around = constant(value, "constant_values")
        need(around.size == 1, f"constant_values must be one number, got shape {around.shape}")
        return np.pad(x, pairs_of(paddings, len(x.shape), "paddings"), constant_values=around.reshape(())[()])


@layer("MirrorPad")
class MirrorPad(TensorFlowLayer):
    """Pad an array with its own elements, mirrored at the edges.

    mode REFLECT does not repeat the edge element, SYMMETRIC does. `paddings` is a constant of shape (rank, 2): the
    numbers of elements before and after each axis.
    Source: tf.raw_ops.MirrorPad; tensorflow/core/kernels/image/mirror_pad_op.cc.
    """

    mode: str = attribute("string")

    def forward(self, x: Array, paddings: Array) -> Array:
        return mirror_pad(x, paddings, self.mode)


def mirror_pad(x: Array, paddings: Array, mode: str) -> Array:
    """Return `x`, padded with mirrored elements: REFLECT does not repeat the edge element, SYMMETRIC does."""
    need(mode in ("REFLECT", "SYMMETRIC"), f"mode must be REFLECT or SYMMETRIC, got '{mode}'")
    pairs = pairs_of(paddings, len(x.shape), "paddings")
    for axis, (n, pair) in enumerate(zip(x.shape, pairs)):
        limit = n - (mode == "REFLECT")
        need(
            max(pair) <= limit, f"paddings {pair} of axis {axis} exceed the {limit} elements that can be mirrored"
        )
    return np.pad(x, pairs, mode="reflect" if mode == "REFLECT" else "symmetric")
