"""Slices, gathers, one-hot encoding, the largest values and related selections."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers._strided import strided_slice
from anylayer.layers.tensorflow._base import TensorFlowLayer, attribute, axis_of, integer, integers, layer, need
from anylayer.network import Array
from anylayer.tracing import is_traced


@layer("Slice")
class Slice(TensorFlowLayer):
    """Slice an array: size[i] elements from begin[i] on along each axis i.

    begin and size are constants with one number per axis. A size of -1 takes the rest of the axis.
    Source: tf.raw_ops.Slice; tensorflow/core/kernels/slice_op.cc.
    """

    def forward(self, x: Array, begin: Array, size: Array) -> Array:
        first, sizes = integers(begin, "begin"), integers(size, "size")
        rank = len(x.shape)
        need(len(first) == len(sizes) == rank, f"begin and size must be {rank} numbers, got {first} and {sizes}")
        key = []
        for axis, (b, s, n) in enumerate(zip(first, sizes, x.shape)):
            s = n - b if s == -1 else s
            need(
                b >= 0 and s >= 0 and b + s <= n,
                f"begin {b} and size {s} do not lie within axis {axis} of size {n}",
            )
            key.append(slice(b, b + s))
        return x[tuple(key)]


@layer("StridedSlice")
class StridedSlice(TensorFlowLayer):
    """Compute x[begin:end:strides, ...] in NumPy's notation.

    begin, end and strides are constants with one entry per dimension of the slice. Bit i of a mask applies to
    entry i: begin_mask and end_mask leave begin or end out; ellipsis_mask makes it an ellipsis, new_axis_mask a
    new axis of size 1, and shrink_axis_mask an index instead of a slice.
    Source: tf.raw_ops.StridedSlice; tensorflow/core/kernels/strided_slice_op.cc.
    """

    begin_mask: int = attribute("int64", 0)
    end_mask: int = attribute("int64", 0)
    ellipsis_mask: int = attribute("int64", 0)
    new_axis_mask: int = attribute("int64", 0)
    shrink_axis_mask: int = attribute("int64", 0)

    def forward(self, x: Array, begin: Array, end: Array, strides: Array) -> Any:
        masks = (self.begin_mask, self.end_mask, self.ellipsis_mask, self.new_axis_mask, self.shrink_axis_mask)
        bits = [[i for i in range(mask.bit_length()) if mask >> i & 1] for mask in masks]
        return strided_slice(x, begin, end, strides, *bits)


class _Picking(TensorFlowLayer):
    """An operation that selects by indices."""

    harmless = frozenset({"validate_indices", "bad_indices_policy"})


def _valid_indices(indices: Array, size: int) -> Array:
    """Return `indices`. Raise LayerError when constant indices do not lie in 0..size-1."""
    need(indices.dtype.kind in "iu", f"indices must be integers, got {indices.dtype}")
    if not is_traced(indices) and np.size(indices):
        need(
            np.min(indices) >= 0 and np.max(indices) < size,
            f"indices must lie in 0..{size - 1}, got {np.min(indices)} to {np.max(indices)}",
        )
    return indices


@layer("Gather")
class Gather(_Picking):
    """Select rows by index: x[indices].

    x (n, ...) and indices (...) give indices.shape + x.shape[1:].
    Source: tf.raw_ops.Gather; tensorflow/core/kernels/gather_op.cc.
    """

    def forward(self, x: Array, indices: Array) -> Array:
        need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")
        return ops.gather(x, _valid_indices(indices, x.shape[0]), axis=0)


@layer("GatherV2")
class GatherV2(_Picking):
    """Select slices along an axis by index, like numpy.take.

    The output has the shape x.shape[:axis] + indices.shape[batch_dims:] + x.shape[axis + 1:]. The axis is a
    constant. With batch_dims = b the first b axes of x and indices correspond, and each batch has indices of its
    own.
    Source: tf.raw_ops.GatherV2; tensorflow/core/kernels/gather_op.cc.
    """

    batch_dims: int = attribute("int64", 0)

    def forward(self, x: Array, indices: Array, axis: Array) -> Array:
        over = axis_of(integer(axis, "axis"), len(x.shape))
        indices = _valid_indices(indices, x.shape[over])
        lead = axis_of(self.batch_dims, len(indices.shape) + 1, "batch_dims") if self.batch_dims else 0
        if lead == 0:
            return ops.gather(x, indices, axis=over)
        need(
            lead <= over and tuple(x.shape[:lead]) == tuple(indices.shape[:lead]),
            f"the first batch_dims={lead} axes of {tuple(x.shape)} and {tuple(indices.shape)} must agree",
        )
        batch = int(np.prod(x.shape[:lead]))
        flat, picks = x.reshape(batch, *x.shape[lead:]), indices.reshape(batch, *indices.shape[lead:])
        parts = [ops.gather(flat[i], picks[i], axis=over - lead) for i in range(batch)]
        slices = np.stack(parts)
        return slices.reshape(*x.shape[:lead], *slices.shape[1:])


@layer("ResourceGather")
class ResourceGather(_Picking):
    """Select rows of a variable by index: x[indices], of shape indices.shape + x.shape[1:].

    Source: tf.raw_ops.ResourceGather; tensorflow/core/kernels/resource_variable_ops.cc.
    """

    batch_dims: int = attribute("int64", 0)
    harmless = frozenset({"validate_indices", "dtype"})

    def forward(self, x: Array, indices: Array) -> Any:
        need(self.batch_dims == 0, f"batch_dims must be 0, got {self.batch_dims}")
        return ops.gather(x, _valid_indices(indices, x.shape[0]), axis=0)


@layer("GatherNd")
class GatherNd(_Picking):
    """Select elements or slices by index vectors: x[indices[..., 0], indices[..., 1], ...].

    x and indices (..., k) give indices.shape[:-1] + x.shape[k:].
    Source: tf.raw_ops.GatherNd; tensorflow/core/kernels/gather_nd_op.cc.
    """

    def forward(self, x: Array, indices: Array) -> Array:
        return ops.gather_nd(x, indices.astype(np.int64))


@layer("OneHot")
class OneHot(TensorFlowLayer):
    """Encode indices as one-hot vectors along a new axis.

    The element is on_value where its position along the new axis equals the index, else off_value. depth, a
    constant, is the size of the new axis; `axis` is its place in the output, -1 for the last.
    Source: tf.raw_ops.OneHot; tensorflow/core/kernels/one_hot_op.cc.
    """

    axis: int = attribute("int64", -1)

    def forward(self, indices: Array, depth: Array, on: Array, off: Array) -> Array:
        count = integer(depth, "depth")
        need(0 <= count < 1 << 24, f"depth must lie in 0..{(1 << 24) - 1}, got {count}")
        rank = len(indices.shape)
        axis = axis_of(self.axis, rank + 1)
        spread = indices.reshape((*indices.shape[:axis], 1, *indices.shape[axis:]))
        cells = np.arange(count, dtype=indices.dtype).reshape(-1, *(1,) * (rank - axis))
        return np.where(spread == cells, on, off)


class _LargestValues(TensorFlowLayer):
    sorted: bool = attribute("bool", True)

    @classmethod
    def results(cls, attr: Any) -> Any:
        return (("values", 1), ("indices", 1))

    def best(self, x: Array, k: int) -> tuple[Array, Array]:
        """Return the k largest elements along the last axis and their indices."""
        need(0 <= k <= x.shape[-1], f"k={k} exceeds the {x.shape[-1]} elements of the last axis")
        values, indices = ops.top_k(x, k, axis=-1)
        return values, indices.astype(np.int32)


@layer("TopK")
class TopK(_LargestValues):
    """Return the k largest elements along the last axis and their indices.

    (..., n) to values and indices (..., k), in descending order; k is an attribute.
    Source: tf.raw_ops.TopK; tensorflow/core/kernels/topk_op.cc.
    """

    k: int = attribute("int64")

    def forward(self, x: Array) -> Any:
        return self.best(x, self.k)


@layer("TopKV2")
class TopKV2(_LargestValues):
    """Return the k largest elements along the last axis and their indices.

    (..., n) to values and indices (..., k), in descending order; k is a constant input.
    Source: tf.raw_ops.TopKV2; tensorflow/core/kernels/topk_op.cc.
    """

    index_type: str = attribute("string", "int32")

    def forward(self, x: Array, k: Array) -> tuple[Array, Array]:
        values, indices = self.best(x, integer(k, "k"))
        need(self.index_type in ("int32", "int64"), f"index_type must be int32 or int64, got {self.index_type}")
        return values, indices.astype(self.index_type)


@layer("ReverseSequence")
class ReverseSequence(TensorFlowLayer):
    """Reverse the first seq_lengths[i] elements of each sequence i.

    The output has the shape of x. seq_dim is the axis of the elements and batch_dim the axis of the sequences.
    Source: tf.raw_ops.ReverseSequence; tensorflow/core/kernels/reverse_sequence_op.cc.
    """

    seq_dim: int = attribute("int64")
    batch_dim: int = attribute("int64", 0)

    def forward(self, x: Array, lengths: Array) -> Array:
        rank = len(x.shape)
        time, batch = axis_of(self.seq_dim, rank, "seq_dim"), axis_of(self.batch_dim, rank, "batch_dim")
        need(time != batch, f"seq_dim and batch_dim must differ, got {time} for both")
        front = np.moveaxis(x, (batch, time), (0, 1))
        turned = ops.reverse_sequence(front, lengths, time_axis=1, batch_axis=0)
        return np.moveaxis(turned, (0, 1), (batch, time))


@layer("Where")
class Where(TensorFlowLayer):
    """Return the indices of the elements that are not zero: (count, rank) int64.

    The count depends on the data.
    Source: tf.raw_ops.Where; tensorflow/core/kernels/where_op.cc.
    """

    def forward(self, x: Array) -> Array:
        return np.argwhere(x).astype(np.int64)
