"""Pictures of a network's inputs, outputs and feature maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anylayer.errors import InputError
from anylayer.inspect.drawing import summary, to_image
from anylayer.inspect.figures import Picture
from anylayer.libraries.pillow import png
from anylayer.network import Array, Network, TensorType
from anylayer.source import TracedNode

_SIDE = 640
"""The largest side of a picture in pixels; larger ones are thinned out."""
_CHANNELS = 64
"""The number of channels of a feature map that are drawn."""
_TOP = 5
"""The number of largest values that are listed of a vector."""
_MAPS = 6
"""The number of feature maps that are chosen."""


def chosen_maps(network: Network, traced: Sequence[TracedNode]) -> list[str]:
    """Return the values to draw: the last feature map of each size, at most the last _MAPS of them.

    Maps with one channel are chosen only where there are no others. Outputs are drawn anyway.
    """
    last: dict[tuple[int, ...], str] = {}
    single: dict[tuple[int, ...], str] = {}
    for t in traced:
        for name, kind in zip(t.node.outputs, t.outputs):
            if kind is None or name in network.outputs.values() or t.is_constant:
                continue
            size = _map_size(kind, t.node.layout)
            if size is not None:
                found = single if kind.shape[3 if t.node.layout == "NHWC" else 1] == 1 else last
                found.pop(size, None)
                found[size] = name
    return list((last or single).values())[-_MAPS:]


def _map_size(kind: TensorType, layout: str) -> tuple[int, ...] | None:
    """Return (height, width) of a value that is a feature map: rank 4, more than one pixel, known sizes."""
    if len(kind.shape) != 4 or not all(isinstance(d, int) for d in kind.shape):
        return None
    size = kind.shape[1:3] if layout == "NHWC" else kind.shape[2:]
    return size if min(size) > 1 else None


def input_pictures(network: Network, arrays: Mapping[str, Array], images: Mapping[str, Array]) -> list[Picture]:
    """Return a picture per input. `images` are the images (H, W, 3) in BGR order that inputs were made from."""
    found = []
    for name, array in arrays.items():
        if name in images:
            image = images[name]
            how = f"the image, {image.shape[1]}x{image.shape[0]}"
            found.append(_picture("input", name, array, image, how))
        else:
            found.append(picture("input", name, array, network.layouts.get(name) == "NHWC"))
    return found


def picture(role: str, name: str, array: Array, channels_last: bool) -> Picture:
    """Return a picture of the first sample of an array, or its largest values where it is not a map."""
    maps = _maps(array, channels_last)
    if maps is None:
        return _picture(role, name, array, None, "")
    try:
        if role == "input" and len(maps) == 3:
            image, _ = to_image(_stretched(maps), "picture")
            return _picture(role, name, array, image, "3 channels as blue, green, red, from the smallest value")
        shown = "tiles" if role == "map" and len(maps) > 1 else "auto"
        image, what = to_image(maps[:_CHANNELS] if shown == "tiles" else maps, shown)
    except InputError:  # values that are not classes
        return _picture(role, name, array, None, "")
    left = len(maps) - _CHANNELS
    what += f"; {left} more are not drawn" if shown == "tiles" and left > 0 else ""
    return _picture(role, name, array, image, what)


def _maps(array: Array, channels_last: bool) -> Array | None:
    """Return the first sample of a feature map as (C, H, W) without values that are not finite, else None."""
    if array.ndim == 4 and channels_last:
        array = array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or array.size == 0 or min(array.shape[2:]) < 2 or array.dtype.kind not in "fiub":
        return None
    maps = array[0]
    step = max(1, -(-max(maps.shape[1:]) // _SIDE))
    thinned: Array = maps[:, ::step, ::step].astype(np.float32)
    return np.nan_to_num(thinned, copy=False, posinf=0.0, neginf=0.0)


def _stretched(maps: Array) -> Array:
    """Return maps scaled to 0..1."""
    low, high = float(maps.min()), float(maps.max())
    return (maps - low) / ((high - low) or 1.0)


def _picture(role: str, name: str, array: Array, image: Array | None, what: str) -> Picture:
    kind = str(TensorType(array.shape, array.dtype))
    if image is None:
        return Picture(role, name, kind, what, summary(array), top=_largest(array))
    step = max(1, -(-max(image.shape[:2]) // (2 * _SIDE)))
    image = image[::step, ::step]
    return Picture(role, name, kind, what, summary(array), png(image), (image.shape[1], image.shape[0]))


def _largest(array: Array) -> tuple[tuple[int, float], ...]:
    """Return the largest values of the first sample with their indices, if it is one vector; ties are sorted by
    index."""
    array = array[0] if array.ndim > 1 else array
    long_axes = [d for d in array.shape if d > 1]
    if len(long_axes) != 1 or array.dtype.kind not in "fiu":
        return ()
    flat = array.ravel()
    return tuple((int(i), float(flat[i])) for i in np.argsort(-flat.astype(np.float64), kind="stable")[:_TOP])
