"""Parts of arrays, taken and written."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import Operation, axes_of, axis_of, known, need_sizes, whole
from anylayer.layers.openvino.activations import number


@layer("StridedSlice")
class StridedSlice(Operation):
    """x[begin:end:stride, ...] with masks that say which bounds count.

    Source: OpenVINO, StridedSlice-1.
    """

    begin_mask: tuple[int, ...] = attribute("int64", (), repeated=True, doc="1: this begin does not count")
    end_mask: tuple[int, ...] = attribute("int64", (), repeated=True, doc="1: this end does not count")
    new_axis_mask: tuple[int, ...] = attribute("int64", (), repeated=True, doc="1: a new axis here")
    shrink_axis_mask: tuple[int, ...] = attribute("int64", (), repeated=True, doc="1: one index, the axis goes")
    ellipsis_mask: tuple[int, ...] = attribute("int64", (), repeated=True, doc="1: all axes that are left")

    def forward(self, x: Any, begin: Any, end: Any, strides: Any = None) -> Any:
        starts, stops = whole(begin, "begin"), whole(end, "end")
        steps = [1] * len(starts) if strides is None else whole(strides, "strides")
        need(
            len(starts) == len(stops) == len(steps),
            f"begin, end and strides must be equally long, got {len(starts)}, {len(stops)}, {len(steps)}",
        )
        keys: list[Any] = []
        for i, (start, stop, step) in enumerate(zip(starts, stops, steps)):
            if self.on(self.ellipsis_mask, i):
                keys.append(Ellipsis)
            elif self.on(self.new_axis_mask, i):
                keys.append(None)
            elif self.on(self.shrink_axis_mask, i):
                keys.append(start)
            else:
                need(step != 0, "strides must not be 0")
                low = None if self.on(self.begin_mask, i) else start
                high = None if self.on(self.end_mask, i) else stop
                keys.append(slice(low, high, step))
        return x[tuple(keys)]

    def on(self, mask: tuple[int, ...], i: int) -> bool:
        """Whether a mask marks place i."""
        return i < len(mask) and mask[i] == 1


@layer("Slice")
class Slice(Operation):
    """x[start:stop:step] along the axes named; all of them where none is.

    Source: OpenVINO, Slice-8.
    """

    def forward(self, x: Any, start: Any, stop: Any, step: Any, axes: Any = None) -> Any:
        bounds = [whole(v, what) for v, what in ((start, "start"), (stop, "stop"), (step, "step"))]
        count = len(bounds[0])
        named = list(range(count)) if axes is None else axes_of(whole(axes, "axes"), len(x.shape))
        need(
            all(len(b) == len(named) for b in bounds),
            f"start, stop, step and axes must be equally long, got {[len(b) for b in bounds]} and {len(named)}",
        )
        keys = [slice(None)] * len(x.shape)
        for axis, low, high, by in zip(named, *bounds):
            need(by != 0, "step must not be 0")
            n = x.shape[axis]
            # far below 0 a stop is before the first element, which Python spells None
            behind = None if by < 0 and high < -n else high
            keys[axis] = slice(low, behind, by)
        return x[tuple(keys)]


@layer("Gather")
class Gather(Operation):
    """Elements of an axis, by index; with batch_dims, rows apart.

    Source: OpenVINO, Gather-1, Gather-7, Gather-8 (negative indices count from the end).
    """

    batch_dims: int = attribute("int64", 0, doc="leading axes that x and the indices share")

    def forward(self, x: Any, indices: Any, axis: Any) -> Any:
        along = axis_of(whole(axis, "axis")[0], len(x.shape))
        batch = axis_of(self.batch_dims, len(indices.shape) + 1, "batch_dims")
        need(batch <= along, f"batch_dims={batch} must not exceed the axis {along}")
        if not batch:
            return ops.gather(x, indices, axis=along)
        shape = tuple(x.shape[:batch])
        need(tuple(indices.shape[:batch]) == shape, f"the first {batch} axes of x and the indices must agree")
        count = int(np.prod(shape))
        rows, lists = x.reshape(count, *x.shape[batch:]), indices.reshape(count, *indices.shape[batch:])
        taken = [ops.gather(rows[i], lists[i], axis=along - batch) for i in range(count)]
        need(count <= 64, f"batch_dims={batch} makes {count} rows, 64 are the most")
        y = np.stack(taken)
        return y.reshape(*shape, *y.shape[1:])


@layer("GatherElements")
class GatherElements(Operation):
    """x[i, indices[i, j]] for axis 1, and so on.

    Source: OpenVINO, GatherElements-6.
    """

    axis: int = attribute("int64")

    def forward(self, x: Any, indices: Any) -> Any:
        return ops.gather_elements(x, indices, axis=axis_of(self.axis, len(x.shape)))


@layer("GatherND")
class GatherND(Operation):
    """Elements or slices, by their coordinates.

    Source: OpenVINO, GatherND-5, GatherND-8.
    """

    batch_dims: int = attribute("int64", 0)

    def forward(self, x: Any, indices: Any) -> Any:
        need(self.batch_dims == 0, f"batch_dims={self.batch_dims} is not supported, 0 is")
        return ops.gather_nd(x, indices.astype(np.int64))


@layer("ScatterUpdate")
class ScatterUpdate(Operation):
    """A copy of x with the slices of an axis that the indices name replaced.

    Source: OpenVINO, ScatterUpdate-3.
    """

    def forward(self, x: Any, indices: Any, updates: Any, axis: Any) -> Any:
        along = axis_of(whole(axis, "axis")[0], len(x.shape))
        count = int(np.prod(indices.shape))
        rest = [*x.shape[:along], *x.shape[along + 1 :]]
        values = updates.reshape(*x.shape[:along], count, *x.shape[along + 1 :])
        moved = np.moveaxis(values, along, 0)
        y = ops.scatter_nd(
            np.moveaxis(x, along, 0), indices.astype(np.int64).reshape(count, 1), moved.reshape(count, *rest)
        )
        return np.moveaxis(y, 0, along)


@layer("ScatterNDUpdate")
class ScatterNDUpdate(Operation):
    """A copy of x with elements or slices, named by coordinates, replaced or combined.

    Source: OpenVINO, ScatterNDUpdate-3, ScatterNDUpdate-15.
    """

    reduction: str = attribute(Enum("none", "sum", "sub", "prod", "min", "max"), "none")

    def forward(self, x: Any, indices: Any, updates: Any) -> Any:
        kind = {"sum": "add", "prod": "mul"}.get(self.reduction, self.reduction)
        if kind == "sub":
            kind, updates = "add", -updates
        return ops.scatter_nd(x, indices.astype(np.int64), updates, reduction=kind)


@layer("ScatterElementsUpdate")
class ScatterElementsUpdate(Operation):
    """A copy of x with x[i, indices[i, j]] = updates[i, j] for axis 1, and so on.

    Source: OpenVINO, ScatterElementsUpdate-3, ScatterElementsUpdate-12.
    """

    reduction: str = attribute(Enum("none", "sum", "prod", "min", "max", "mean"), "none")
    use_init_val: bool = attribute("bool", True)

    def forward(self, x: Any, indices: Any, updates: Any, axis: Any) -> Any:
        need(self.reduction != "mean", "reduction 'mean' is not supported")
        need(
            self.use_init_val or self.reduction == "none",
            "use_init_val: false with a reduction is not supported",
        )
        kind = {"sum": "add", "prod": "mul"}.get(self.reduction, self.reduction)
        along = axis_of(whole(axis, "axis")[0], len(x.shape))
        return ops.scatter_elements(x, indices, updates, axis=along, reduction=kind)


@layer("Pad")
class Pad(Operation):
    """Cells around the array: a constant, the edge repeated, or mirrored with (symmetric) or without it.

    Negative pads, from opset12 on, cut. Source: OpenVINO, Pad-1, Pad-12.
    """

    pad_mode: str = attribute(Enum("constant", "edge", "reflect", "symmetric"))

    def forward(self, x: Any, begin: Any, end: Any, value: Any = None) -> Any:
        low, high = whole(begin, "pads_begin"), whole(end, "pads_end")
        need(len(low) == len(high) == len(x.shape), f"pads must have {len(x.shape)} numbers, got {low} and {high}")
        keys = tuple(slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, x.shape))
        if any(min(a, b) < 0 for a, b in zip(low, high)):
            need(self.pad_mode == "constant", f"negative pads with pad_mode '{self.pad_mode}' are not supported")
            x = x[keys]
        need_sizes([max(a, 0) + n + max(b, 0) for a, b, n in zip(low, high, x.shape)])
        pairs = [(max(a, 0), max(b, 0)) for a, b in zip(low, high)]
        if self.pad_mode != "constant":
            return np.pad(x, pairs, mode=self.pad_mode)  # type: ignore[call-overload]
        fill = x.dtype.type(0 if value is None else number(value, "the pad's value"))
        return np.pad(x, pairs, constant_values=fill)


@layer("ReverseSequence")
class ReverseSequence(Operation):
    """The first `lengths[b]` steps of each sequence the other way round.

    Source: OpenVINO, ReverseSequence-1.
    """

    batch_axis: int = attribute("int64", 0)
    seq_axis: int = attribute("int64", 1)

    def forward(self, x: Any, lengths: Any) -> Any:
        rank = len(x.shape)
        batch, time = axis_of(self.batch_axis, rank, "batch_axis"), axis_of(self.seq_axis, rank, "seq_axis")
        need(batch != time, f"batch_axis and seq_axis must differ, both are {batch}")
        rest = [i for i in range(rank) if i not in (batch, time)]
        order = [time, batch, *rest]
        lengths = lengths.astype(np.int64)
        y = ops.reverse_sequence(x.transpose(order), lengths, time_axis=0, batch_axis=1)
        return y.transpose([order.index(i) for i in range(rank)])


@layer("OneHot")
class OneHot(Operation):
    """A new axis that has one value at the index and another elsewhere.

    Source: OpenVINO, OneHot-1.
    """

    axis: int = attribute("int64")

    def forward(self, indices: Any, depth: Any, on: Any, off: Any) -> Any:
        count = whole(depth, "depth")[0]
        hot = ops.one_hot(indices, count, axis=axis_of(self.axis, len(indices.shape) + 1)) != np.float32(0)
        return np.where(hot, known(on, "on_value").reshape(()), known(off, "off_value").reshape(()))
