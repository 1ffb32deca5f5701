"""Arrays as pictures: maps in gray, classes in colour, channels as tiles. Pure NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anylayer.errors import InputError, need
from anylayer.network import Array

_CLASSES = 1 << 16


@dataclass(frozen=True)
class Box:
    """A rectangle to draw, in the picture's pixels, with a caption and a colour (R, G, B)."""

    left: float
    top: float
    right: float
    bottom: float
    caption: str
    colour: tuple[int, int, int]


def colours(count: int) -> Array:
    """`count` colours (count, 3) in R, G, B order, the first black: PASCAL VOC's colour map."""
    index = np.arange(count)
    table = np.zeros((count, 3), np.int64)
    for bit in range(8):
        for channel in range(3):
            table[:, channel] |= (index >> (3 * bit + channel) & 1) << (7 - bit)
    return table.astype(np.uint8)


def gray(plane: Array) -> tuple[Array, str]:
    """A plane (H, W) as gray values, with what black and white stand for.

    Values within 0..1 keep that range; others are stretched from their smallest to their largest. What is not
    finite is black.
    """
    finite = plane[np.isfinite(plane)]
    low = float(finite.min()) if finite.size else 0.0
    high = float(finite.max()) if finite.size else 1.0
    if low >= 0 and high <= 1 and plane.dtype.kind == "f":
        low, high = 0.0, 1.0
    scaled = (plane.astype(np.float64) - low) / ((high - low) or 1.0)
    levels = np.rint(255 * np.clip(np.nan_to_num(scaled, nan=0.0, posinf=0.0, neginf=0.0), 0, 1))
    return levels.astype(np.uint8), f"{low:.4g} is black, {high:.4g} white"


def classes(labels: Array) -> tuple[Array, str]:
    """A plane (H, W) of class numbers as a picture (H, W, 3) in BGR order, with the classes it shows."""
    low, high = float(labels.min()), float(labels.max())
    need(
        low >= 0 and high < _CLASSES and bool((labels == np.floor(labels)).all()),
        f"class numbers are whole and lie in 0..{_CLASSES - 1}, these lie in {low:g}..{high:g}",
        InputError,
    )
    found = np.unique(labels).astype(int)
    shown = ", ".join(map(str, found[:12])) + (" ..." if len(found) > 12 else "")
    return colours(int(high) + 1)[labels.astype(np.int64)][:, :, ::-1], f"classes {shown}"


def tiles(planes: Array) -> tuple[Array, str]:
    """Channels (C, H, W) side by side, each stretched from its smallest to its largest value."""
    count, height, width = planes.shape
    columns = int(np.ceil(np.sqrt(count * height / max(width, 1)))) or 1
    columns = min(columns, count)
    rows = -(-count // columns)
    sheet = np.zeros((rows * (height + 1) - 1, columns * (width + 1) - 1), np.uint8)
    for i, plane in enumerate(planes):
        y, x = i // columns * (height + 1), i % columns * (width + 1)
        low, high = float(np.nanmin(plane)), float(np.nanmax(plane))
        scaled = (plane.astype(np.float64) - low) / ((high - low) or 1.0)
        sheet[y : y + height, x : x + width] = np.rint(255 * np.clip(np.nan_to_num(scaled), 0, 1))
    return sheet, f"{count} channels, {columns} a row"


def is_classes(plane: Array) -> bool:
    """Whether a plane holds class numbers: whole numbers in 0..255, not only 0 and 1."""
    if plane.size == 0 or not bool((plane == np.floor(plane)).all()):
        return False
    low, high = plane.min(), plane.max()
    return bool(low >= 0 and 1 < high <= 255)


def to_picture(maps: Array, show: str) -> tuple[Array, str]:
    """Maps (C, H, W) as a picture, with a few words on what it shows.

    `show` is "map" (one channel in gray), "classes" (class numbers, or the largest of the channels), "picture"
    (3 channels as B, G, R), "tiles", or "auto": classes for more than one channel or whole numbers, else map.
    """
    channels = len(maps)
    need(maps.size > 0, f"there is nothing to draw in an array of shape {maps.shape}", InputError)
    if show == "auto":
        show = "classes" if channels > 1 or is_classes(maps[0]) else "map"
    if show == "map":
        need(channels == 1, f"a map has 1 channel, got {channels}. Take --show classes or tiles", InputError)
        return gray(maps[0])
    if show == "classes":
        if channels == 1:
            return classes(maps[0])
        picture, what = classes(maps.argmax(0))
        return picture, f"the largest of {channels} channels: {what}"
    if show == "tiles":
        return tiles(maps)
    need(channels == 3, f"a picture has 3 channels, got {channels}. Take --show map, classes or tiles", InputError)
    top = 1.0 if float(np.nanmin(maps)) >= 0 and float(np.nanmax(maps)) <= 1 else 255.0
    values = np.clip(np.nan_to_num(maps.transpose(1, 2, 0)) * (255.0 / top), 0, 255)
    return np.rint(values).astype(np.uint8), f"3 channels as blue, green, red of 0..{top:g}"
