"""Shapes, and the order of values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from anylayer.layer import Enum, layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import Operation, axes_of, axis_of, known, need_sizes, whole
from anylayer.layers.openvino.casting import dtype_of


@layer("Reshape")
class Reshape(Operation):
    """The values in order, in another shape; -1 is what is left over, 0 with special_zero the input's size.

    Source: OpenVINO, Reshape-1.
    """

    special_zero: bool = attribute("bool", doc="0 copies the size of the same axis")

    def forward(self, x: Any, shape: Any) -> Any:
        wanted = whole(shape, "the shape")
        if self.special_zero:
            need(
                all(d != 0 or i < len(x.shape) for i, d in enumerate(wanted)),
                f"the shape {wanted} copies sizes of axes that {tuple(x.shape)} lacks",
            )
            wanted = [x.shape[i] if d == 0 else d for i, d in enumerate(wanted)]
        need(wanted.count(-1) <= 1 and min(wanted, default=0) >= -1, f"the shape {wanted} has sizes below 0")
        return x.reshape(tuple(wanted))


@layer("Squeeze")
class Squeeze(Operation):
    """Without axes of size 1: those named, or all of them.

    Source: OpenVINO, Squeeze-1, Squeeze-15.
    """

    allow_axis_skip: bool = attribute("bool", False, doc="axes of other sizes stay")

    def forward(self, x: Any, axes: Any = None) -> Any:
        rank = len(x.shape)
        if axes is None or not whole(axes, "axes"):
            named = [i for i in range(rank) if x.shape[i] == 1]
        else:
            named = sorted({axis_of(a, rank, "axes") for a in whole(axes, "axes")})
            if self.allow_axis_skip:
                named = [a for a in named if x.shape[a] == 1]
        for a in named:
            need(x.shape[a] == 1, f"axis {a} of shape {tuple(x.shape)} is not of size 1")
        return x.reshape(tuple(d for i, d in enumerate(x.shape) if i not in named))


@layer("Unsqueeze")
class Unsqueeze(Operation):
    """With new axes of size 1.

    Source: OpenVINO, Unsqueeze-1.
    """

    def forward(self, x: Any, axes: Any) -> Any:
        named = whole(axes, "axes")
        rank = len(x.shape) + len(named)
        places = axes_of(named, rank)
        left = iter(x.shape)
        return x.reshape(tuple(1 if i in places else next(left) for i in range(rank)))


@layer("Transpose")
class Transpose(Operation):
    """The axes in another order; reversed where none is given.

    Source: OpenVINO, Transpose-1.
    """

    def forward(self, x: Any, order: Any) -> Any:
        rank = len(x.shape)
        wanted = whole(order, "the order") or list(range(rank))[::-1]
        wanted = axes_of(wanted, rank, "the order")
        need(len(wanted) == rank, f"the order must name {rank} axes, got {wanted}")
        return x.transpose(wanted)


@layer("Concat")
class Concat(Operation):
    """The inputs one behind the other along an axis.

    Source: OpenVINO, Concat-1.
    """

    axis: int = attribute("int64")

    def forward(self, *inputs: Any) -> Any:
        need(inputs, "takes at least one input")
        return np.concatenate(inputs, axis=axis_of(self.axis, len(inputs[0].shape)))


@layer("Split")
class Split(Operation):
    """Equal parts along an axis.

    Source: OpenVINO, Split-1.
    """

    num_splits: int = attribute("int64")

    def forward(self, x: Any, axis: Any) -> Any:
        along = axis_of(whole(axis, "axis")[0], len(x.shape))
        n, count = x.shape[along], self.num_splits
        need(
            count > 0 and n % count == 0 and count == self.outputs,
            f"num_splits={count} does not divide the {n} of axis {along} into {self.outputs} outputs",
        )
        return np.split(x, count, axis=along)


@layer("VariadicSplit")
class VariadicSplit(Operation):
    """Parts of given lengths along an axis; -1 is what is left over.

    Source: OpenVINO, VariadicSplit-1.
    """

    def forward(self, x: Any, axis: Any, lengths: Any) -> Any:
        along = axis_of(whole(axis, "axis")[0], len(x.shape))
        parts, n = whole(lengths, "the lengths"), x.shape[along]
        if parts.count(-1) == 1:
            parts[parts.index(-1)] = n - sum(parts) - 1
        need(
            sum(parts) == n and min(parts, default=0) >= 0,
            f"the lengths {whole(lengths, 'the lengths')} do not make up the {n} of axis {along}",
        )
        ends = np.cumsum([0, *parts])
        keys = [(slice(None),) * along + (slice(int(a), int(b)),) for a, b in itertools.pairwise(ends)]
        return [x[key] for key in keys]


@layer("ShapeOf")
class ShapeOf(Operation):
    """The shape.

    Source: OpenVINO, ShapeOf-1, ShapeOf-3.
    """

    output_type: str = attribute("string", "i64")

    def forward(self, x: Any) -> Any:
        need(self.output_type in ("i32", "i64"), f"output_type is i32 or i64, got '{self.output_type}'")
        return np.array([int(d) for d in x.shape], dtype_of(self.output_type, "output_type"))


@layer("Broadcast")
class Broadcast(Operation):
    """Repeated along axes of size 1, to a shape.

    Source: OpenVINO, Broadcast-1, Broadcast-3.
    """

    mode: str = attribute(Enum("numpy", "explicit", "bidirectional"), "numpy")
    broadcast_spec: str = attribute(Enum("numpy", "explicit"), "numpy")

    def forward(self, x: Any, shape: Any, axes: Any = None) -> Any:
        wanted = tuple(whole(shape, "the shape"))
        if "explicit" in (self.mode, self.broadcast_spec):
            need(axes is not None, "mode 'explicit' needs a third input, the axes")
            places = axes_of(whole(axes, "axes"), len(wanted))
            need(len(places) == len(x.shape), f"{len(x.shape)} axes are mapped, got {places}")
            full = [1] * len(wanted)
            for place, n in zip(places, x.shape):
                full[place] = n
            x = x.reshape(tuple(full))
        if self.mode == "bidirectional":
            wanted = np.broadcast_shapes(tuple(x.shape), wanted)
        need_sizes(wanted)
        return np.broadcast_to(x, wanted)


@layer("Tile")
class Tile(Operation):
    """Repeated whole, along each axis as often as the second input says.

    Source: OpenVINO, Tile-1.
    """

    def forward(self, x: Any, repeats: Any) -> Any:
        times = whole(repeats, "the repeats")
        need(min(times, default=0) >= 0, f"the repeats must not be negative, got {times}")
        rank = max(len(times), len(x.shape))
        shape, times = [[1] * (rank - len(v)) + list(v) for v in (x.shape, times)]
        need_sizes([d * n for d, n in zip(shape, times)])
        return np.tile(x, tuple(times))


@layer("Range")
class Range(Operation):
    """Numbers from start to before stop.

    Source: OpenVINO, Range-1, Range-4.
    """

    output_type: str = attribute("string", "")

    def forward(self, start: Any, stop: Any, step: Any) -> Any:
        limits = [known(v, what).reshape(-1)[0] for v, what in ((start, "start"), (stop, "stop"), (step, "step"))]
        need(limits[2] != 0, "step must not be 0")
        dtype = dtype_of(self.output_type, "output_type") if self.output_type else limits[0].dtype
        first, last, by = (float(v) for v in limits)
        need(np.isfinite([first, last, by]).all(), f"its limits must be finite, got {first:g}, {last:g}, {by:g}")
        count = max(0, int(np.ceil((last - first) / by)))
        need_sizes([count])
        return (limits[0] + np.arange(count) * limits[2]).astype(dtype)


@layer("Reverse")
class Reverse(Operation):
    """Axes the other way round, named by number (index) or marked (mask).

    Source: OpenVINO, Reverse-1.
    """

    mode: str = attribute(Enum("index", "mask"))

    def forward(self, x: Any, axes: Any) -> Any:
        if self.mode == "mask":
            named = [i for i, marked in enumerate(known(axes, "axes").reshape(-1)) if marked]
        else:
            named = axes_of(whole(axes, "axes"), len(x.shape))
        return np.flip(x, tuple(named))


@layer("Roll")
class Roll(Operation):
    """Shifted along axes, what falls out at one end coming in at the other.

    Source: OpenVINO, Roll-7.
    """

    def forward(self, x: Any, shift: Any, axes: Any) -> Any:
        shifts, named = whole(shift, "shift"), whole(axes, "axes")
        shifts = shifts * len(named) if len(shifts) == 1 else shifts
        return np.roll(x, tuple(shifts), tuple(axis_of(a, len(x.shape), "axes") for a in named))
