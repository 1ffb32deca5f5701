"""Read and write image files."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from anylayer.errors import FileError, at
from anylayer.inspect.drawing import Box
from anylayer.libraries.pillow import (
    FORMATS,
    NETWORK_FORMATS,
    Image,
    ImageDraw,
    ImageFont,
    ImageOps,
    from_array,
    opened,
)
from anylayer.libraries.whole import write_whole
from anylayer.network import Array


def suffixes() -> frozenset[str]:
    """Return the suffixes of the images that can be read, in lower case."""
    known = Image.registered_extensions()
    return frozenset(s.lower() for s, name in known.items() if name in Image.OPEN and name in FORMATS)


def writable() -> frozenset[str]:
    """Return the suffixes of the images that can be written, in lower case."""
    known = Image.registered_extensions()
    return frozenset(s.lower() for s, name in known.items() if name in Image.SAVE)


def read_image(path: Path) -> Array:
    """Read an image as uint8 (H, W, 3) in BGR order, as cv::imread does.

    The image is rotated as its EXIF data say, transparency is dropped, and only the first frame of an animation
    and the upper 8 of 16 bits are kept. Raises FileError for a file that cannot be read or has too many pixels.
    """
    with opened(path) as file:
        return _pixels(file)


def decode_image(data: bytes) -> Array:
    """Return an image of the usual formats, encoded in memory, as `read_image` does.

    Other formats are refused: Pillow runs programs to read some of them (EPS).
    """
    with opened(BytesIO(data), NETWORK_FORMATS) as file:
        return _pixels(file)


def _pixels(file: Image.Image) -> Array:
    image: Image.Image = ImageOps.exif_transpose(file)
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    rgb = np.asarray(image.convert("RGB"))
    return np.ascontiguousarray(rgb[:, :, ::-1])


def write_image(path: Path, image: Array) -> None:
    """Write a uint8 image: (H, W) in gray or (H, W, 3) in BGR order. The suffix determines the format."""
    _save(path, from_array(image))


def draw_boxes(image: Array, boxes: Sequence[Box]) -> Array:
    """Return an image (BGR order) with boxes and their captions drawn on it."""
    canvas = from_array(image)
    draw = ImageDraw.Draw(canvas)
    unit = max(1, round(max(canvas.size) / 400))
    font = ImageFont.load_default(size=max(10, 6 * unit + 4))
    for box in boxes:
        left, right = sorted((_within(box.left, canvas.width), _within(box.right, canvas.width)))
        top, bottom = sorted((_within(box.top, canvas.height), _within(box.bottom, canvas.height)))
        draw.rectangle((left, top, right, bottom), outline=box.color, width=unit + 1)
        if not box.caption:
            continue
        x0, y0, x1, y1 = draw.textbbox((0, 0), box.caption, font=font)
        wide, high = x1 - x0 + 2 * unit, y1 - y0 + 2 * unit
        side = min(max(left, 0), max(0, canvas.width - wide))
        base = min(max(top - high if top >= high else top, 0), max(0, canvas.height - high))
        draw.rectangle((side, base, side + wide, base + high), fill=box.color)
        draw.text((side + unit - x0, base + unit - y0), box.caption, fill=_text_color(box.color), font=font)
    return np.ascontiguousarray(np.asarray(canvas)[:, :, ::-1])


def _within(value: float, size: int) -> float:
    """Limit a coordinate to 8 pixels beyond the image. Pillow's time to draw grows with the invisible part."""
    return float(min(max(np.nan_to_num(value), -8.0), size + 8.0))


def _text_color(color: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return black or white, whichever is readable on a background of this color."""
    r, g, b = color
    return (0, 0, 0) if 299 * r + 587 * g + 114 * b > 128_000 else (255, 255, 255)


def _save(path: Path, image: Image.Image) -> None:
    name = Image.registered_extensions().get(path.suffix.lower())
    if name is None or name not in Image.SAVE:
        raise FileError(f"Pillow cannot write images with the suffix '{path.suffix}'; use .png", str(path))
    with at(str(path)):
        try:
            write_whole(path, lambda file: image.save(file, format=name))
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise FileError(f"the image cannot be written: {error}") from None
