"""Relate the pixels of two tops of a NetSpec, and crop one to the other (BVLC/caffe python/caffe/coord_map.py).

A map is (axis, a, b): pixel i of the one top is at position a * i + b in the other, along the axes after `axis`.
`a` and `b` are arrays with one value for all axes, or one per axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anylayer.caffe.net_spec import Function, Layers, Top
from anylayer.errors import InputError, given, need
from anylayer.layer import Registry
from anylayer.network import Array
from anylayer.readers.caffe.alignment import map_between

CoordMap = tuple[int | None, Array, Array]

_IDENTITY: CoordMap = (None, np.ones(1), np.zeros(1))
_WINDOWS = {"Convolution": "convolution_param", "Im2col": "convolution_param", "Pooling": "pooling_param"}
_TRANSPOSED = {"Deconvolution": "convolution_param"}
_OLDER = ("pad_h", "pad_w", "kernel_h", "kernel_w", "stride_h", "stride_w")


class UnconnectedError(InputError, RuntimeError):
    """Two tops are not connected by layers that map pixels to pixels."""


class CropError(InputError, AssertionError):
    """A top cannot be cropped to another one."""


def coord_map(fn: Function) -> CoordMap | None:
    """Return the map from the pixels of a layer's bottoms to those of its tops, None where there is none."""
    if fn.type_name in _WINDOWS:
        axis, stride, extent, pad = _window(fn, _WINDOWS[fn.type_name])
        return axis, 1 / stride, (pad - (extent - 1) / 2) / stride
    if fn.type_name in _TRANSPOSED:
        axis, stride, extent, pad = _window(fn, _TRANSPOSED[fn.type_name])
        return axis, stride, (extent - 1) / 2 - pad
    definitions = Registry.of("caffe").find(fn.type_name)
    if definitions and definitions[0].typed and definitions[0].layer_class.aligned:
        values = _values(fn, definitions[0].layer_class.message)
        return values.get("axis", 2) - 1, np.ones(1), -_array(values.get("offset", 0))
    return _IDENTITY if definitions and definitions[0].typed and definitions[0].layer_class.elementwise else None


def _values(fn: Function, message: str) -> Mapping[str, Any]:
    return fn.params.get(message, fn.params)


def _array(value: Any) -> Array:
    return np.array(value, float, ndmin=1)


def _window(fn: Function, message: str) -> tuple[int, Array, Array, Array]:
    """Return axis, stride, extent and pad of a layer's windows."""
    values = _values(fn, message)
    older = [name for name in _OLDER if name in values]
    need(
        not older,
        f"{fn.type_name} has {', '.join(older)}; write kernel_size, stride and pad, as a list for different axes",
        InputError,
    )
    need("kernel_size" in values, f"{fn.type_name} has no kernel_size, so it maps no pixels", InputError)
    extent = (_array(values["kernel_size"]) - 1) * _array(values.get("dilation", 1)) + 1
    return values.get("axis", 1), _array(values.get("stride", 1)), extent, _array(values.get("pad", 0))


def compose(first: CoordMap, then: CoordMap) -> CoordMap:
    """Return the map that applies `then`, and `first` to its result."""
    (axis, a, b), (other, c, d) = first, then
    need(
        axis is None or other is None or axis == other,
        f"one map is along the axes after {axis}, the other along those after {other}",
        InputError,
    )
    return (other if axis is None else axis), a * c, a * d + b


def inverse(given: CoordMap) -> CoordMap:
    """Return the inverse of a map."""
    axis, a, b = given
    return axis, 1 / a, -b / a


def coord_map_from_to(top_from: Top, top_to: Top) -> CoordMap:
    """Return the map from the pixels of `top_from` to those of `top_to`, through their nearest common ancestor.

    Raises UnconnectedError where there is none.
    """
    types = f"{top_from.fn.type_name} and {top_to.fn.type_name}"
    return given(
        map_between(top_from, top_to, _IDENTITY, _bottoms, compose, inverse),
        f"no layers that map pixels to pixels connect the tops of {types}",
        UnconnectedError,
    )


def _bottoms(top: Top) -> list[tuple[Top, CoordMap]]:
    """Return the tops that a layer maps to this one, each with the map."""
    step = coord_map(top.fn)
    if step is None:
        return []
    cropped = Registry.of("caffe").find(top.fn.type_name)[0].layer_class.aligned
    return [(bottom, step) for bottom in (top.fn.inputs[:1] if cropped else top.fn.inputs)]


def crop(top_from: Top, top_to: Top) -> Top:
    """Return the top of a Crop layer that cuts `top_from` to the pixels of `top_to`.

    Raises CropError where the two differ in scale, or by an offset that is negative or not an integer.
    """
    axis, a, b = coord_map_from_to(top_from, top_to)
    need(bool((a == 1).all()), f"the tops differ in scale by {a.tolist()}, so no crop aligns them", CropError)
    need(bool((b <= 0).all()), f"the crop would start at {(-b).tolist()}, before the first pixel", CropError)
    need(bool((np.round(b) == b).all()), f"the crop would start at {(-b).tolist()}, between pixels", CropError)
    offset = [int(-x) for x in b]
    return Layers().Crop(top_from, top_to, crop_param={"axis": (axis or 1) + 1, "offset": offset})
