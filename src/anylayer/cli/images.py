"""Pictures as files: the only file that knows Pillow."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps, UnidentifiedImageError

from anylayer.cli.files import write
from anylayer.cli.pictures import Box
from anylayer.errors import FileError, at
from anylayer.network import Array


def suffixes() -> frozenset[str]:
    """The suffixes of the pictures that can be read, in lower case."""
    known = Image.registered_extensions()
    return frozenset(s.lower() for s, name in known.items() if name in Image.OPEN)


def writable() -> frozenset[str]:
    """The suffixes of the pictures that can be written, in lower case."""
    known = Image.registered_extensions()
    return frozenset(s.lower() for s, name in known.items() if name in Image.SAVE)


def read_picture(path: Path) -> Array:
    """A picture as uint8 (H, W, 3) in BGR order, turned as its EXIF data says, without transparency; of an
    animation the first frame, of 16-bit values the upper 8 bits. As cv::imread."""
    with at(str(path)), warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            with Image.open(path) as file:
                picture: Image.Image = ImageOps.exif_transpose(file)
                if picture.mode.startswith("I;16"):
                    picture = Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
                rgb = np.asarray(picture.convert("RGB"))
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise FileError(f"the picture has more than {Image.MAX_IMAGE_PIXELS} pixels") from None
        except UnidentifiedImageError:
            raise FileError("this is no picture Pillow knows") from None
        except FileNotFoundError:
            raise FileError("there is no such file") from None
        except (OSError, SyntaxError, ValueError, EOFError, MemoryError) as error:
            raise FileError(f"the picture cannot be read: {error}") from None
    return np.ascontiguousarray(rgb[:, :, ::-1])


def write_picture(path: Path, picture: Array) -> None:
    """Write a uint8 picture: (H, W) in gray or (H, W, 3) in BGR order. The suffix tells the format."""
    _save(path, Image.fromarray(picture if picture.ndim == 2 else np.ascontiguousarray(picture[:, :, ::-1])))


def write_boxes(path: Path, picture: Array, boxes: Sequence[Box]) -> None:
    """Write a picture (BGR order) with rectangles and their captions drawn on it."""
    image = Image.fromarray(np.ascontiguousarray(picture[:, :, ::-1]))
    draw = ImageDraw.Draw(image)
    unit = max(1, round(max(image.size) / 400))
    font = ImageFont.load_default(size=max(10, 6 * unit + 4))
    for box in boxes:
        left, right = sorted((_within(box.left, image.width), _within(box.right, image.width)))
        top, bottom = sorted((_within(box.top, image.height), _within(box.bottom, image.height)))
        draw.rectangle((left, top, right, bottom), outline=box.colour, width=unit + 1)
        if not box.caption:
            continue
        x0, y0, x1, y1 = draw.textbbox((0, 0), box.caption, font=font)
        wide, high = x1 - x0 + 2 * unit, y1 - y0 + 2 * unit
        side = min(max(left, 0), max(0, image.width - wide))
        base = min(max(top - high if top >= high else top, 0), max(0, image.height - high))
        draw.rectangle((side, base, side + wide, base + high), fill=box.colour)
        draw.text((side + unit - x0, base + unit - y0), box.caption, fill=_readable(box.colour), font=font)
    _save(path, image)


def _within(value: float, size: int) -> float:
    """A coordinate a little beyond the picture at most: Pillow draws only what can be seen, but counts it all."""
    return float(min(max(np.nan_to_num(value), -8.0), size + 8.0))


def _readable(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    r, g, b = colour
    return (0, 0, 0) if 299 * r + 587 * g + 114 * b > 128_000 else (255, 255, 255)


def _save(path: Path, image: Image.Image) -> None:
    name = Image.registered_extensions().get(path.suffix.lower())
    if name is None or name not in Image.SAVE:
        raise FileError(f"Pillow writes no pictures of kind '{path.suffix}', take .png", str(path))
    with at(str(path)):
        try:
            write(path, lambda file: image.save(file, format=name))
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise FileError(f"the picture cannot be written: {error}") from None
