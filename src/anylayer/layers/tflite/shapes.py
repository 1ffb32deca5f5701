"""Operators that reshape, rearrange, select, repeat and pad, and the values of constant tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.layer import Array, attribute, layer, need
from anylayer.layer.arguments import axis_in, integers, reshape
from anylayer.layers._arrays import MASKS, concatenate, split, split_by_sizes
from anylayer.layers._table import need_one_dtype, of_tensorflow, operators, row
from anylayer.layers.tflite._base import NO_ACTIVATION, SOURCE, TFLiteLayer, same_as
from anylayer.network import Steps

_INT = attribute("int32")
_SAME = {
    "SQUEEZE": "Squeeze", "EXPAND_DIMS": "ExpandDims", "TRANSPOSE": "Transpose", "TILE": "Tile", "FILL": "Fill",
    "BROADCAST_TO": "BroadcastTo", "RANGE": "Range", "RANK": "Rank", "SHAPE": "Shape",
    "PADV2": "PadV2", "MIRROR_PAD": "MirrorPad", "REVERSE_V2": "ReverseV2", "REVERSE_SEQUENCE": "ReverseSequence",
    "SLICE": "Slice", "GATHER_ND": "GatherNd", "ONE_HOT": "OneHot", "WHERE": "Where", "UNPACK": "Unpack",
}  # fmt: skip


def _reshape(x: Array, shape: Array | None = None, *, new_shape: Sequence[int]) -> Array:
    sizes = [*new_shape] if shape is None else integers(shape, "shape")
    if shape is None and sizes == [0]:  # the oldest files state a scalar so
        sizes = []
    return reshape(x, sizes, "shape")


def _pack(*xs: Array, values_count: int, axis: int) -> Array:
    need(values_count == len(xs), f"values_count is {values_count}, but there are {len(xs)} inputs")
    return of_tensorflow("Pack")(*xs, axis=axis)


def _strided_slice(x: Array, begin: Array, end: Array, strides: Array, offset: bool, **masks: int) -> Array:
    need(not offset, "offset is not supported")
    return of_tensorflow("StridedSlice")(x, begin, end, strides, **masks)


def _split_v(x: Array, sizes: list[int], axis: Array, num_splits: int) -> list[Array]:
    need(len(sizes) == num_splits, f"num_splits is {num_splits}, but there are {len(sizes)} sizes")
    return split_by_sizes(x, axis_in(x, axis), sizes, "size_splits")


def _pad(x: Array, paddings: Array, *, input_steps: Steps | None) -> Array:
    return of_tensorflow("PadV2")(x, paddings, input_steps[1] if input_steps else 0)


operators(
    TFLiteLayer,
    SOURCE,
    {
        "PAD": row("Pad an array with zeros, which are zero points of a quantized one.", _pad, "pad",
            "Axis i gets paddings[i, 0] elements before the array and paddings[i, 1] after it."),
        **{name: same_as(kind, "of this name") for name, kind in _SAME.items()},
        "RESHAPE": row("Reshape an array, in C order.", _reshape, "reshape",
            "The shape is the second input, a constant, or the option new_shape. One of its sizes may be -1.",
            new_shape=attribute("int32", (), repeated=True)),
        "STRIDED_SLICE": row("Compute x[begin:end:strides, ...] in NumPy's notation.", _strided_slice,
            "strided_slice",
            "begin, end and strides are constants. Bit i of a mask applies to entry i, as in TensorFlow.",
            offset=attribute("bool", False), **dict.fromkeys(MASKS, attribute("int32", 0))),
        "SPLIT": row("Split an array into num_splits equal parts along an axis, the first input, a constant.",
            lambda axis, x, num_splits: split(x, axis_in(x, axis), num_splits, "num_splits"), "split",
            num_splits=_INT),
        "SPLIT_V": row("Split an array into parts of constant sizes along a constant axis; one size may be -1.",
            _split_v, "split_v", num_splits=_INT, sizes=integers),
        "GATHER": row("Select slices along an axis by index, like numpy.take.",
            lambda x, indices, axis, batch_dims: of_tensorflow("GatherV2")(
                x, indices, np.array(axis), batch_dims=batch_dims),
            "gather", "With batch_dims = b the first b axes of x and indices correspond.",
            axis=_INT, batch_dims=attribute("int32", 0)),
        "DENSIFY": row("Return a sparse constant, which is read as a dense array.", lambda x: x, "densify"),
        "READ_VARIABLE": row("Return the value of a variable.", lambda x: x, "read_variable"),
        "BROADCAST_ARGS": same_as("BroadcastArgs", "broadcast_args"),
    },
)  # fmt: skip
operators(
    TFLiteLayer,
    SOURCE,
    {
        "CONCATENATION": row("Concatenate arrays along an axis.",
            lambda *xs, axis, fused_activation_function: concatenate(xs, axis), "concatenation",
            axis=_INT, fused_activation_function=NO_ACTIVATION),
        "PACK": row("Stack arrays of equal shape along a new axis.", _pack, "pack",
            "`axis` is the index of the new axis in the output.", values_count=_INT, axis=_INT),
    },
    check=need_one_dtype,
)  # fmt: skip


@layer("CONSTANT")
class Constant(TFLiteLayer):
    """Return the value of a tensor, with its shape and dtype.

    A file has no operator for it: an operator names the tensors that it reads, some of which have values.
    Source: tensorflow/lite/schema/schema.fbs, Tensor.buffer.
    """

    def forward(self) -> Array:
        need(len(self._blobs) == 1, f"a constant needs one value in the file, got {len(self._blobs)}")
        return self.blob(0, self._blobs[0].shape, what="value")
