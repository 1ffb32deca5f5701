"""Slices, gathers, scatters, padding and one-hot encoding."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from anylayer import ops
from anylayer.errors import TraceError
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import (
    axes_in,
    axis_in,
    constant,
    integer,
    integers,
    is_constant,
    need_sizes,
    number,
    pad,
    slice_axes,
)
from anylayer.layers._arrays import gather, one_hot, reverse_sequences, strided_slice
from anylayer.layers._table import operators, row
from anylayer.layers.openvino._base import SPECIFICATION, OpenVINOLayer

Mode = Literal["constant", "edge", "reflect", "symmetric"]


def _strided_slice(x: Array, begin: Array, end: Array, strides: Array | None = None, **masks: Any) -> Array:
    entries = {name: [i for i, on in enumerate(mask) if on == 1] for name, mask in masks.items()}
    return strided_slice(x, begin, end, strides, **entries)


def _slice(x: Array, start: Array, stop: Array, step: Array, axes: Array | None = None) -> Array:
    over = list(range(start.shape[0])) if axes is None else axes_in(x, axes)
    return slice_axes(x, over, start, stop, step)


def _gather_nd(x: Array, indices: Array, batch_dims: int) -> Array:
    need(batch_dims == 0, f"batch_dims must be 0, got {batch_dims}")
    return ops.gather_nd(x, indices.astype(np.int64))


def _scatter_update(x: Array, indices: Array, updates: Array, axis: Array) -> Array:
    along = axis_in(x, axis)
    count = int(np.prod(indices.shape))
    rest = [*x.shape[:along], *x.shape[along + 1 :]]
    values = np.moveaxis(updates.reshape(*x.shape[:along], count, *x.shape[along + 1 :]), along, 0)
    places = indices.astype(np.int64).reshape(count, 1)
    y = ops.scatter_nd(np.moveaxis(x, along, 0), places, values.reshape(count, *rest))
    return np.moveaxis(y, 0, along)


_REDUCTIONS: Any = {"sum": "add", "prod": "mul", "sub": "add"}
"""ONNX's names of reductions; "sub" adds the negative updates."""


def _scatter_nd_update(x: Array, indices: Array, updates: Array, reduction: str) -> Array:
    kind = _REDUCTIONS.get(reduction, reduction)
    return ops.scatter_nd(x, indices.astype(np.int64), -updates if reduction == "sub" else updates, reduction=kind)


def _scatter_elements_update(
    x: Array, indices: Array, updates: Array, axis: Array, reduction: str, use_init_val: bool
) -> Array:
    need(reduction != "mean", "reduction 'mean' is not supported")
    need(use_init_val or reduction == "none", "use_init_val: false with a reduction is not supported")
    kind = _REDUCTIONS.get(reduction, reduction)
    return ops.scatter_elements(x, indices, updates, axis=axis_in(x, axis), reduction=kind)


def _pad(x: Array, begin: Array, end: Array, value: Any = 0, *, pad_mode: Mode) -> Array:
    if pad_mode == "constant":
        return pad(x, begin, end, x.dtype.type(0 if value is None else value))
    computed = not is_constant(begin) or not is_constant(end)
    need(not computed, f"computed pads with pad_mode '{pad_mode}' are not supported", TraceError)
    low, high = integers(begin, "pads_begin"), integers(end, "pads_end")
    need(len(low) == len(high) == len(x.shape), f"pads must have {len(x.shape)} numbers, got {low} and {high}")
    need(min([*low, *high], default=0) >= 0, f"negative pads with pad_mode '{pad_mode}' are not supported")
    need_sizes([a + n + b for a, b, n in zip(low, high, x.shape)])
    return np.pad(x, list(zip(low, high)), mode=pad_mode)


def _mask(doc: str) -> Any:
    return attribute("int64", (), repeated=True, doc=doc)


operators(
    OpenVINOLayer,
    SPECIFICATION,
    {
        "StridedSlice": row("Compute x[begin:end:strides, ...] in NumPy's notation.", _strided_slice,
            "StridedSlice-1",
            "`begin`, `end` and `strides` are constants of shape (d,), with one entry per axis of the slice, to "
            "which the masks apply.",
            begin_mask=_mask("1: start at the first element"), end_mask=_mask("1: end after the last element"),
            new_axis_mask=_mask("1: insert an axis of size 1"), ellipsis_mask=_mask("1: an ellipsis"),
            shrink_axis_mask=_mask("1: an index, which removes the axis")),
        "Slice": row("Compute x[start:stop:step] along the given axes, or along the leading axes.", _slice,
            "Slice-8",
            "start, stop, step and axes have one length, and the axes are constants. If x has a dynamic size "
            "there, or the others are computed, the result has dynamic sizes."),
        "Gather": row(
            "Select slices along an axis by index; with batch_dims, each batch by indices of its own.",
            lambda x, indices, axis, batch_dims: gather(x, indices, axis_in(x, axis), batch_dims),
            "Gather-1, Gather-7 and Gather-8",
            "The output has the shape x.shape[:axis] + indices.shape[batch_dims:] + x.shape[axis + 1:]. The axis "
            "is a constant. Negative indices count from the end.",
            batch_dims=attribute("int64", 0, doc="number of leading axes that x and the indices share")),
        "GatherElements": row("Select elements along an axis: y[i, j] = x[i, indices[i, j]] for axis 1.",
            ops.gather_elements, "GatherElements-6", "The output has the shape of the indices.",
            axis=attribute("int64")),
        "GatherND": row("Select by index vectors: x[indices[..., 0], indices[..., 1], ...].", _gather_nd,
            "GatherND-5 and GatherND-8", "x and indices (..., k) give indices.shape[:-1] + x.shape[k:].",
            batch_dims=attribute("int64", 0)),
        "ScatterUpdate": row("Copy x and replace the slices of an axis that the indices select.", _scatter_update,
            "ScatterUpdate-3",
            "Updates have the shape x.shape[:axis] + indices.shape + x.shape[axis + 1:]. The axis is a constant."),
        "ScatterNDUpdate": row(
            "Copy x and replace or combine the elements or slices that index vectors select.", _scatter_nd_update,
            "ScatterNDUpdate-3 and ScatterNDUpdate-15",
            "Updates have the shape indices.shape[:-1] + x.shape[k:] for indices (..., k).",
            reduction=attribute(Enum("none", "sum", "sub", "prod", "min", "max"), "none")),
        "ScatterElementsUpdate": row("Copy x and set y[i, indices[i, j]] = updates[i, j] for axis 1.",
            _scatter_elements_update, "ScatterElementsUpdate-3 and ScatterElementsUpdate-12",
            "Updates have the shape of the indices. With a reduction they are combined with x. The axis is a "
            "constant.",
            reduction=attribute(Enum("none", "sum", "prod", "min", "max", "mean"), "none"),
            use_init_val=attribute("bool", True)),
        "Pad": row("Pad an array with a constant, with its edge, or with its mirrored elements.", _pad,
            "Pad-1 and Pad-12",
            "pads_begin and pads_end have one number per axis; negative ones, from opset12 on, crop. reflect does "
            "not repeat the edge element, symmetric does. With pads that are computed, all sizes of the result "
            "are dynamic.",
            value=lambda x, _: number(x, "pad_value"),
            pad_mode=attribute(Enum("constant", "edge", "reflect", "symmetric"))),
        "ReverseSequence": row("Reverse the first lengths[b] steps of each sequence b.",
            lambda x, lengths, batch_axis, seq_axis: reverse_sequences(
                x, lengths.astype(np.int64), (batch_axis, "batch_axis"), (seq_axis, "seq_axis")),
            "ReverseSequence-1", "seq_axis is the axis of the steps and batch_axis that of the sequences.",
            batch_axis=attribute("int64", 0), seq_axis=attribute("int64", 1)),
        "OneHot": row("Encode indices as one-hot vectors along a new axis.",
            lambda indices, depth, on_value, off_value, axis: one_hot(
                indices, depth, axis, on_value.reshape(()), off_value.reshape(())),
            "OneHot-1",
            "The element is on_value where its position along the new axis equals the index, else off_value. "
            "depth is the size of the new axis; the last three inputs are constants.",
            depth=integer, on_value=constant, off_value=constant, axis=attribute("int64")),
    },
)  # fmt: skip
