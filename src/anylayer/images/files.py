"""Read and write image files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np

from anylayer.errors import FileError, at
from anylayer.libraries.pillow import FORMATS, NETWORK_FORMATS, Image, ImageOps, from_array, opened
from anylayer.libraries.whole import write_whole
from anylayer.network import Array


def suffixes() -> frozenset[str]:
    """Return the suffixes of the images that can be read, in lower case."""
    formats = Image.registered_extensions()
    return frozenset(s.lower() for s, name in formats.items() if name in Image.OPEN and name in FORMATS)


def writable() -> frozenset[str]:
    """Return the suffixes of the images that can be written, in lower case."""
    formats = Image.registered_extensions()
    return frozenset(s.lower() for s, name in formats.items() if name in Image.SAVE)


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
