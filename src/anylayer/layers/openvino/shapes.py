"""Operations on shapes and on the order of elements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from anylayer.errors import given
from anylayer.layer import Enum, layer, need
from anylayer.layer.arguments import axes_of, axis_of, constant, integer, integers, part_sizes, reshape, shape_of
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import OpenVINOLayer, need_sizes
from anylayer.layers.openvino.casting import dtype_of
from anylayer.network import Array


@layer("Reshape")
class Reshape(OpenVINOLayer):
    """Reshape an array in C order.

    The shape is a constant. A size of -1 stands for the rest; with special_zero, 0 copies the size of the same
    input axis.
    Source: OpenVINO operation specification, Reshape-1.
    """

    special_zero: bool = attribute("bool", doc="whether 0 copies the size of the same input axis")

    def forward(self, x: Array, shape: Array) -> Array:
        return reshape(x, integers(shape, "shape"), "shape", x.shape if self.special_zero else None)


@layer("Squeeze")
class Squeeze(OpenVINOLayer):
    """Remove axes of size 1: those given, or all of them.

    The axes are a constant.
    Source: OpenVINO operation specification, Squeeze-1 and Squeeze-15.
    """

    allow_axis_skip: bool = attribute("bool", False, doc="whether axes of other sizes are kept instead of refused")

    def forward(self, x: Array, axes: Array | None = None) -> Array:
        rank = len(x.shape)
        if axes is None or not integers(axes, "axes"):
            named = [i for i in range(rank) if x.shape[i] == 1]
        else:
            named = sorted({axis_of(a, rank, "axes") for a in integers(axes, "axes")})
            if self.allow_axis_skip:
                named = [a for a in named if x.shape[a] == 1]
        for a in named:
            need(x.shape[a] == 1, f"axis {a} of shape {tuple(x.shape)} must have size 1")
        return x.reshape(tuple(d for i, d in enumerate(x.shape) if i not in named))


@layer("Unsqueeze")
class Unsqueeze(OpenVINOLayer):
    """Insert axes of size 1.

    The axes, a constant, are indices of the output.
    Source: OpenVINO operation specification, Unsqueeze-1.
    """

    def forward(self, x: Array, axes: Array) -> Array:
        named = integers(axes, "axes")
        rank = len(x.shape) + len(named)
        places = axes_of(named, rank)
        left = iter(x.shape)
        return x.reshape(tuple(1 if i in places else next(left) for i in range(rank)))


@layer("Transpose")
class Transpose(OpenVINOLayer):
    """Permute the axes: output axis i is input axis order[i]. An empty order reverses them.

    The order is a constant.
    Source: OpenVINO operation specification, Transpose-1.
    """

    def forward(self, x: Array, order: Array) -> Array:
        rank = len(x.shape)
        permutation = integers(order, "the order") or list(range(rank))[::-1]
        permutation = axes_of(permutation, rank, "the order")
        need(len(permutation) == rank, f"the order must name {rank} axes, got {permutation}")
        return x.transpose(permutation)


@layer("Concat")
class Concat(OpenVINOLayer):
    """Concatenate the inputs along `axis`.

    The inputs have equal shapes except along `axis`.
    Source: OpenVINO operation specification, Concat-1.
    """

    axis: int = attribute("int64")

    def forward(self, *inputs: Array) -> Array:
        need(inputs, "takes at least one input")
        return np.concatenate(inputs, axis=axis_of(self.axis, len(inputs[0].shape)))


@layer("Split")
class Split(OpenVINOLayer):
    """Split an array into num_splits equal parts along an axis.

    The axis is a constant.
    Source: OpenVINO operation specification, Split-1.
    """

    num_splits: int = attribute("int64")

    def forward(self, x: Array, axis: Array) -> list[Array]:
        along = axis_of(integer(axis, "axis"), len(x.shape))
        n, count = x.shape[along], self.num_splits
        need(
            count > 0 and n % count == 0 and count == self.outputs,
            f"num_splits={count} does not divide axis {along} of size {n} into {self.outputs} outputs",
        )
        return np.split(x, count, axis=along)


@layer("VariadicSplit")
class VariadicSplit(OpenVINOLayer):
    """Split an array into parts of given lengths along an axis.

    Axis and lengths are constants. One length may be -1, which stands for the rest.
    Source: OpenVINO operation specification, VariadicSplit-1.
    """

    def forward(self, x: Array, axis: Array, lengths: Array) -> list[Array]:
        along = axis_of(integer(axis, "axis"), len(x.shape))
        parts = part_sizes(integers(lengths, "split_lengths"), x.shape[along], "split_lengths")
        ends = np.cumsum([0, *parts])
        keys = [(slice(None),) * along + (slice(int(a), int(b)),) for a, b in itertools.pairwise(ends)]
        return [x[key] for key in keys]


@layer("ShapeOf")
class ShapeOf(OpenVINOLayer):
    """Return the shape of the input as integers (rank,). It is a constant, unless a size is dynamic.

    Source: OpenVINO operation specification, ShapeOf-1 and ShapeOf-3.
    """

    output_type: str = attribute("string", "i64")

    def forward(self, x: Array) -> Array:
        need(self.output_type in ("i32", "i64"), f"output_type must be i32 or i64, got '{self.output_type}'")
        return shape_of(x, dtype_of(self.output_type, "output_type"))


@layer("Broadcast")
class Broadcast(OpenVINOLayer):
    """Broadcast an array to a shape.

    The shape is a constant. Mode numpy broadcasts x to it, bidirectional broadcasts both to each other, and
    explicit maps axis i of x to axis axes[i] of the shape, where the third input gives the axes.
    Source: OpenVINO operation specification, Broadcast-1 and Broadcast-3.
    """

    mode: str = attribute(Enum("numpy", "explicit", "bidirectional"), "numpy")
    broadcast_spec: str = attribute(Enum("numpy", "explicit"), "numpy")

    def forward(self, x: Array, shape: Array, axes: Array | None = None) -> Array:
        target = tuple(integers(shape, "the shape"))
        if "explicit" in (self.mode, self.broadcast_spec):
            axes = given(axes, "mode 'explicit' needs a third input, the axes")
            places = axes_of(integers(axes, "axes"), len(target))
            need(
                len(places) == len(x.shape),
                f"the axes must be {len(x.shape)} numbers, one per axis of the input, got {places}",
            )
            full = [1] * len(target)
            for place, n in zip(places, x.shape):
                full[place] = n
            x = x.reshape(tuple(full))
        if self.mode == "bidirectional":
            target = np.broadcast_shapes(tuple(x.shape), target)
        need_sizes(target)
        return np.broadcast_to(x, target)


@layer("Tile")
class Tile(OpenVINOLayer):
    """Repeat an array along each axis as often as the second input states.

    The repeats are a constant. The shorter of shape and repeats is extended by ones in front.
    Source: OpenVINO operation specification, Tile-1.
    """

    def forward(self, x: Array, repeats: Array) -> Array:
        times = integers(repeats, "the repeats")
        need(min(times, default=0) >= 0, f"the repeats must not be negative, got {times}")
        rank = max(len(times), len(x.shape))
        shape, times = [[1] * (rank - len(v)) + list(v) for v in (x.shape, times)]
        need_sizes([d * n for d, n in zip(shape, times)])
        return np.tile(x, tuple(times))


@layer("Range")
class Range(OpenVINOLayer):
    """Return the numbers start, start + step, ... before stop.

    All inputs are constant scalars.
    Source: OpenVINO operation specification, Range-1, Range-4.
    """

    output_type: str = attribute("string", "")

    def forward(self, start: Array, stop: Array, step: Array) -> Any:
        limits = [
            constant(v, what).reshape(-1)[0] for v, what in ((start, "start"), (stop, "stop"), (step, "step"))
        ]
        need(limits[2] != 0, "step must not be 0")
        dtype = dtype_of(self.output_type, "output_type") if self.output_type else limits[0].dtype
        first, last, by = (float(v) for v in limits)
        need(np.isfinite([first, last, by]).all(), f"its limits must be finite, got {first:g}, {last:g}, {by:g}")
        count = max(0, int(np.ceil((last - first) / by)))
        need_sizes([count])
        return (limits[0] + np.arange(count) * limits[2]).astype(dtype)


@layer("Reverse")
class Reverse(OpenVINOLayer):
    """Reverse the order of the elements along some axes.

    The axes are a constant: indices with mode index, or one boolean per axis with mode mask.
    Source: OpenVINO operation specification, Reverse-1.
    """

    mode: str = attribute(Enum("index", "mask"))

    def forward(self, x: Array, axes: Array) -> Any:
        if self.mode == "mask":
            named = [i for i, marked in enumerate(constant(axes, "axes").reshape(-1)) if marked]
        else:
            named = axes_of(integers(axes, "axes"), len(x.shape))
        return np.flip(x, tuple(named))


@layer("Roll")
class Roll(OpenVINOLayer):
    """Shift the elements along some axes cyclically.

    Shifts and axes are constants.
    Source: OpenVINO operation specification, Roll-7.
    """

    def forward(self, x: Array, shift: Array, axes: Array) -> Array:
        shifts, named = integers(shift, "shift"), integers(axes, "axes")
        shifts = shifts * len(named) if len(shifts) == 1 else shifts
        return np.roll(x, tuple(shifts), tuple(axis_of(a, len(x.shape), "axes") for a in named))
