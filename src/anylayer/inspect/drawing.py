"""Turn arrays into images, in NumPy: maps in gray, classes in color, channels as tiles."""

from __future__ import annotations

import numpy as np

from anylayer.errors import InputError, need, plural, wording
from anylayer.network import Array

_MAX_CLASSES = 1 << 16  # classes in an image of labels


def colors(count: int) -> Array:
    """Return PASCAL VOC's color map as uint8 (count, 3) in R, G, B order. The first color is black."""
    index = np.arange(count)
    table = np.zeros((count, 3), np.int64)
    for bit in range(8):
        for channel in range(3):
            table[:, channel] |= (index >> (3 * bit + channel) & 1) << (7 - bit)
    return table.astype(np.uint8)


def _levels(plane: Array, low: float, high: float) -> Array:
    """Return values as gray levels from 0 for `low` to 255 for `high`. NaN is 0, as are infinite values."""
    scaled = (plane.astype(np.float64) - low) / ((high - low) or 1.0)
    levels = np.rint(255 * np.clip(np.nan_to_num(scaled, nan=0.0, posinf=0.0, neginf=0.0), 0, 1))
    return np.asarray(levels, np.uint8)


def gray(plane: Array) -> tuple[Array, str]:
    """Return a plane (H, W) as uint8 gray values, and a text that says which values black and white stand for.

    Black and white are 0 and 1 if all values are in 0..1, else the smallest and largest value. NaN and infinite
    values are black.
    """
    finite = plane[np.isfinite(plane)]
    low = float(finite.min()) if finite.size else 0.0
    high = float(finite.max()) if finite.size else 1.0
    if low >= 0 and high <= 1 and plane.dtype.kind == "f":
        low, high = 0.0, 1.0
    return _levels(plane, low, high), f"{low:.4g} is black, {high:.4g} white"


def classes(labels: Array) -> tuple[Array, str]:
    """Return a plane (H, W) of class numbers as an image (H, W, 3) in BGR order, and a text with the classes."""
    low, high = float(labels.min()), float(labels.max())
    need(
        low >= 0 and high < _MAX_CLASSES and bool((labels == np.floor(labels)).all()),
        f"class numbers must be integers in 0..{_MAX_CLASSES - 1}; these are in {low:g}..{high:g}",
        InputError,
    )
    present = np.unique(labels).astype(int)
    shown = ", ".join(map(str, present[:12])) + (" ..." if len(present) > 12 else "")
    return colors(int(high) + 1)[labels.astype(np.int64)][:, :, ::-1], f"classes {shown}"


def tiles(planes: Array) -> tuple[Array, str]:
    """Return channels (C, H, W) side by side in gray, each from its smallest (black) to its largest value."""
    count, height, width = planes.shape
    columns = int(np.ceil(np.sqrt(count * height / max(width, 1)))) or 1
    columns = min(columns, count)
    rows = -(-count // columns)
    sheet = np.zeros((rows * (height + 1) - 1, columns * (width + 1) - 1), np.uint8)
    for i, plane in enumerate(planes):
        y, x = i // columns * (height + 1), i % columns * (width + 1)
        low, high = float(np.nanmin(plane)), float(np.nanmax(plane))
        sheet[y : y + height, x : x + width] = _levels(plane, low, high)
    return sheet, f"{plural(count, 'channel')}, {columns} per row"


def is_classes(plane: Array) -> bool:
    """Return whether a plane holds class numbers: integers in 0..255, not only 0 and 1."""
    if plane.size == 0 or not bool((plane == np.floor(plane)).all()):
        return False
    low, high = plane.min(), plane.max()
    return bool(low >= 0 and 1 < high <= 255)


def to_image(maps: Array, show: str) -> tuple[Array, str]:
    """Return maps (C, H, W) as an image, and a text that says what it shows.

    show: "map" (one channel in gray), "classes" (class numbers, or the index of the largest channel), "picture" (3
    channels as B, G, R), "tiles" (all channels side by side), or "auto": "classes" for several channels or class
    numbers, else "map".
    """
    channels = len(maps)
    need(maps.size > 0, f"an array of shape {maps.shape} has no elements to draw", InputError)
    if show == "auto":
        show = "classes" if channels > 1 or is_classes(maps[0]) else "map"
    if show == "map":
        remedy = wording("show='classes' or 'tiles'", "--show classes or tiles")
        need(channels == 1, f"a map has 1 channel, got {channels}. Use {remedy}", InputError)
        return gray(maps[0])
    if show == "classes":
        if channels == 1:
            return classes(maps[0])
        image, what = classes(maps.argmax(0))
        return image, f"the largest of {channels} channels: {what}"
    if show == "tiles":
        return tiles(maps)
    remedy = wording("show='map', 'classes' or 'tiles'", "--show map, classes or tiles")
    need(channels == 3, f"a color image has 3 channels, got {channels}. Use {remedy}", InputError)
    top = 1.0 if float(np.nanmin(maps)) >= 0 and float(np.nanmax(maps)) <= 1 else 255.0
    values = np.clip(np.nan_to_num(maps.transpose(1, 2, 0)) * (255.0 / top), 0, 255)
    return np.rint(values).astype(np.uint8), f"3 channels as blue, green, red of 0..{top:g}"


def summary(array: Array) -> str:
    """Return `0.01..0.98, mean 0.2`, and the number of values that are not finite."""
    finite = array[np.isfinite(array)]
    text = "no values"
    if finite.size:
        text = f"{finite.min():.6g}..{finite.max():.6g}, mean {finite.mean(dtype=np.float64):.6g}"
    odd = array.size - finite.size
    return text + (f"; {odd} of {array.size} values are NaN or infinite" if odd else "")


def has_detections(output: Array) -> bool:
    """Return whether an output has SSD's detections: [1, 1, N, 7], integer image and class, score in 0..1."""
    if output.ndim != 4 or output.shape[:2] != (1, 1) or output.shape[3] != 7:
        return False
    rows = output.reshape(-1, 7)
    rows = rows[rows[:, 0] >= 0]
    if not np.isfinite(rows).all():
        return False
    whole = bool((rows[:, :2] == np.floor(rows[:, :2])).all())
    return whole and bool((rows[:, 1] >= -1).all()) and bool(((rows[:, 2] >= 0) & (rows[:, 2] <= 1)).all())
