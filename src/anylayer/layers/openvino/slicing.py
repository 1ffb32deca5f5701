"""Slices, gathers, scatters, padding and one-hot encoding."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import numpy as np

from anylayer import ops
from anylayer.graph.sizes import Dim, is_static
from anylayer.layer import Enum, layer, need
from anylayer.layer.arguments import axes_of, axis_of, constant, integer, integers
from anylayer.layer.fields import attribute
from anylayer.layers._strided import strided_slice
from anylayer.layers.openvino._base import OpenVINOLayer, need_sizes
from anylayer.layers.openvino.activations import number
from anylayer.network import MAX_VALUES, Array
from anylayer.tracing import is_traced, record

_fresh = itertools.count()


def _dynamic(limit: Any = MAX_VALUES) -> Dim:
    """Return a new dynamic size of at most `limit`, a size."""
    return Dim(f"size{next(_fresh)}", limit.maximum if isinstance(limit, Dim) else limit)


@layer("StridedSlice")
class StridedSlice(OpenVINOLayer):
    """Compute x[begin:end:strides, ...] in NumPy's notation.

    `begin`, `end` and `strides` are constants of shape (d,), with one entry per axis of the slice, to which
    the masks apply.
    Source: OpenVINO operation specification, StridedSlice-1.
    """

    begin_mask: tuple[int, ...] = attribute("int64", (), repeated=True, doc="1: start at the first element")
    end_mask: tuple[int, ...] = attribute("int64", (), repeated=True, doc="1: end after the last element")
    new_axis_mask: tuple[int, ...] = attribute("int64", (), repeated=True, doc="1: insert an axis of size 1")
    shrink_axis_mask: tuple[int, ...] = attribute(
        "int64", (), repeated=True, doc="1: an index, which removes the axis"
    )
    ellipsis_mask: tuple[int, ...] = attribute("int64", (), repeated=True, doc="1: an ellipsis")

    def forward(self, x: Array, begin: Array, end: Array, strides: Array | None = None) -> Any:
        masks = (self.begin_mask, self.end_mask, self.ellipsis_mask, self.new_axis_mask, self.shrink_axis_mask)
        return strided_slice(
            x, begin, end, strides, *([i for i, on in enumerate(mask) if on == 1] for mask in masks)
        )


@layer("Slice")
class Slice(OpenVINOLayer):
    """Compute x[start:stop:step] along the given axes, or along the leading axes.

    start, stop, step and axes have one length, and the axes are constants. If x has a dynamic size there, or the
    others are computed, the result has dynamic sizes.
    Source: OpenVINO operation specification, Slice-8.
    """

    def forward(self, x: Array, start: Array, stop: Array, step: Array, axes: Array | None = None) -> Array:
        limits = [start, stop, step]
        if any(map(is_traced, limits)) or not is_static(x.shape):
            named = list(range(start.shape[0])) if axes is None else axes_of(integers(axes, "axes"), len(x.shape))
            if any(map(is_traced, limits)) or not is_static([x.shape[a] for a in named]):
                shape = [_dynamic(d) if i in named else d for i, d in enumerate(x.shape)]
                return record("Slice", [x, start, stop, np.array(named), step], shape, x.dtype)
        bounds = [integers(v, what) for v, what in zip(limits, ("start", "stop", "step"))]
        count = len(bounds[0])
        named = list(range(count)) if axes is None else axes_of(integers(axes, "axes"), len(x.shape))
        need(
            all(len(b) == len(named) for b in bounds),
            f"start, stop, step and axes must have one length, got {[len(b) for b in bounds]} and {len(named)}",
        )
        keys = [slice(None)] * len(x.shape)
        for axis, low, high, by in zip(named, *bounds):
            need(by != 0, "step must not be 0")
            n = x.shape[axis]
            # a stop before the first element is None in Python
            end = None if by < 0 and high < -n else high
            keys[axis] = slice(low, end, by)
        return x[tuple(keys)]


@layer("Gather")
class Gather(OpenVINOLayer):
    """Select slices along an axis by index; with batch_dims, each batch by indices of its own.

    The output has the shape x.shape[:axis] + indices.shape[batch_dims:] + x.shape[axis + 1:]. The axis is a
    constant. Negative indices count from the end.
    Source: OpenVINO operation specification, Gather-1, Gather-7 and Gather-8.
    """

    batch_dims: int = attribute("int64", 0, doc="number of leading axes that x and the indices share")

    def forward(self, x: Array, indices: Array, axis: Array) -> Array:
        along = axis_of(integer(axis, "axis"), len(x.shape))
        batch = axis_of(self.batch_dims, len(indices.shape) + 1, "batch_dims")
        need(batch <= along, f"batch_dims={batch} must not exceed the axis {along}")
        if not batch:
            return ops.gather(x, indices, axis=along)
        shape = tuple(x.shape[:batch])
        need(tuple(indices.shape[:batch]) == shape, f"the first {batch} axes of x and the indices must agree")
        count = int(np.prod(shape))
        rows, lists = x.reshape(count, *x.shape[batch:]), indices.reshape(count, *indices.shape[batch:])
        parts = [ops.gather(rows[i], lists[i], axis=along - batch) for i in range(count)]
        need(count <= 64, f"batch_dims={batch} gives {count} batches, at most 64 are supported")
        y = np.stack(parts)
        return y.reshape(*shape, *y.shape[1:])


@layer("GatherElements")
class GatherElements(OpenVINOLayer):
    """Select elements along an axis: y[i, j] = x[i, indices[i, j]] for axis 1.

    The output has the shape of the indices.
    Source: OpenVINO operation specification, GatherElements-6.
    """

    axis: int = attribute("int64")

    def forward(self, x: Array, indices: Array) -> Array:
        return ops.gather_elements(x, indices, axis=axis_of(self.axis, len(x.shape)))


@layer("GatherND")
class GatherND(OpenVINOLayer):
    """Select elements or slices by index vectors: x[indices[..., 0], indices[..., 1], ...].

    x and indices (..., k) give indices.shape[:-1] + x.shape[k:].
    Source: OpenVINO operation specification, GatherND-5 and GatherND-8.
    """

    batch_dims: int = attribute("int64", 0)

    def forward(self, x: Array, indices: Array) -> Array:
        need(self.batch_dims == 0, f"batch_dims must be 0, got {self.batch_dims}")
        return ops.gather_nd(x, indices.astype(np.int64))


@layer("ScatterUpdate")
class ScatterUpdate(OpenVINOLayer):
    """Copy x and replace the slices of an axis that the indices select.

    Updates have the shape x.shape[:axis] + indices.shape + x.shape[axis + 1:]. The axis is a constant.
    Source: OpenVINO operation specification, ScatterUpdate-3.
    """

    def forward(self, x: Array, indices: Array, updates: Array, axis: Array) -> Array:
        along = axis_of(integer(axis, "axis"), len(x.shape))
        count = int(np.prod(indices.shape))
        rest = [*x.shape[:along], *x.shape[along + 1 :]]
        values = updates.reshape(*x.shape[:along], count, *x.shape[along + 1 :])
        moved = np.moveaxis(values, along, 0)
        y = ops.scatter_nd(
            np.moveaxis(x, along, 0), indices.astype(np.int64).reshape(count, 1), moved.reshape(count, *rest)
        )
        return np.moveaxis(y, 0, along)


@layer("ScatterNDUpdate")
class ScatterNDUpdate(OpenVINOLayer):
    """Copy x and replace or combine the elements or slices that index vectors select.

    Updates have the shape indices.shape[:-1] + x.shape[k:] for indices (..., k).
    Source: OpenVINO operation specification, ScatterNDUpdate-3 and ScatterNDUpdate-15.
    """

    reduction: str = attribute(Enum("none", "sum", "sub", "prod", "min", "max"), "none")

    def forward(self, x: Array, indices: Array, updates: Array) -> Array:
        kind = {"sum": "add", "prod": "mul"}.get(self.reduction, self.reduction)
        if kind == "sub":
            kind, updates = "add", -updates
        return ops.scatter_nd(x, indices.astype(np.int64), updates, reduction=kind)


@layer("ScatterElementsUpdate")
class ScatterElementsUpdate(OpenVINOLayer):
    """Copy x and set y[i, indices[i, j]] = updates[i, j] for axis 1.

    Updates have the shape of the indices. With a reduction they are combined with x. The axis is a constant.
    Source: OpenVINO operation specification, ScatterElementsUpdate-3 and ScatterElementsUpdate-12.
    """

    reduction: str = attribute(Enum("none", "sum", "prod", "min", "max", "mean"), "none")
    use_init_val: bool = attribute("bool", True)

    def forward(self, x: Array, indices: Array, updates: Array, axis: Array) -> Array:
        need(self.reduction != "mean", "reduction 'mean' is not supported")
        need(
            self.use_init_val or self.reduction == "none",
            "use_init_val: false with a reduction is not supported",
        )
        kind = {"sum": "add", "prod": "mul"}.get(self.reduction, self.reduction)
        along = axis_of(integer(axis, "axis"), len(x.shape))
        return ops.scatter_elements(x, indices, updates, axis=along, reduction=kind)


@layer("Pad")
class Pad(OpenVINOLayer):
    """Pad an array with a constant, with its edge, or with its mirrored elements.

    pads_begin and pads_end have one number per axis; negative ones, from opset12 on, crop. reflect does not repeat
    the edge element, symmetric does. With pads that are computed, all sizes of the result are dynamic.
    Source: OpenVINO operation specification, Pad-1 and Pad-12.
    """

    pad_mode: Literal["constant", "edge", "reflect", "symmetric"] = attribute(
        Enum("constant", "edge", "reflect", "symmetric")
    )

    def forward(self, x: Array, begin: Array, end: Array, value: Array | None = None) -> Array:
        fill = x.dtype.type(0 if value is None else number(value, "pad_value"))
        if is_traced(begin) or is_traced(end) or not is_static(x.shape):
            need(self.pad_mode == "constant", f"computed pads with pad_mode '{self.pad_mode}' are not supported")
            pads = np.concatenate([v.astype(np.int64) for v in (begin, end)])
            return record("Pad", [x, pads, np.array(fill)], [_dynamic() for _ in x.shape], x.dtype)
        low, high = integers(begin, "pads_begin"), integers(end, "pads_end")
        need(len(low) == len(high) == len(x.shape), f"pads must have {len(x.shape)} numbers, got {low} and {high}")
        keys = tuple(slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, x.shape))
        if any(min(a, b) < 0 for a, b in zip(low, high)):
            need(self.pad_mode == "constant", f"negative pads with pad_mode '{self.pad_mode}' are not supported")
            x = x[keys]
        need_sizes([max(a, 0) + n + max(b, 0) for a, b, n in zip(low, high, x.shape)])
        pairs = [(max(a, 0), max(b, 0)) for a, b in zip(low, high)]
        if self.pad_mode != "constant":
            return np.pad(x, pairs, mode=self.pad_mode)
        return np.pad(x, pairs, constant_values=fill)


@layer("ReverseSequence")
class ReverseSequence(OpenVINOLayer):
    """Reverse the first lengths[b] steps of each sequence b.

    The output has the shape of x. seq_axis is the axis of the steps and batch_axis the axis of the sequences.
    Source: OpenVINO operation specification, ReverseSequence-1.
    """

    batch_axis: int = attribute("int64", 0)
    seq_axis: int = attribute("int64", 1)

    def forward(self, x: Array, lengths: Array) -> Array:
        rank = len(x.shape)
        batch, time = axis_of(self.batch_axis, rank, "batch_axis"), axis_of(self.seq_axis, rank, "seq_axis")
        need(batch != time, f"batch_axis and seq_axis must differ, both are {batch}")
        rest = [i for i in range(rank) if i not in (batch, time)]
        order = [time, batch, *rest]
        lengths = lengths.astype(np.int64)
        y = ops.reverse_sequence(x.transpose(order), lengths, time_axis=0, batch_axis=1)
        return y.transpose([order.index(i) for i in range(rank)])


@layer("OneHot")
class OneHot(OpenVINOLayer):
    """Encode indices as one-hot vectors along a new axis.

    The element is on_value where its position along the new axis equals the index, else off_value. depth is the
    size of the new axis; the last three inputs are constants.
    Source: OpenVINO operation specification, OneHot-1.
    """

    axis: int = attribute("int64")

    def forward(self, indices: Array, depth: Array, on: Array, off: Array) -> Array:
        count = integer(depth, "depth")
        inside = np.where(indices < 0, count, indices)  # ops.one_hot counts negative indices from the end
        hot = ops.one_hot(inside, count, axis=axis_of(self.axis, len(indices.shape) + 1)) != np.float32(0)
        return np.where(hot, constant(on, "on_value").reshape(()), constant(off, "off_value").reshape(()))
