"""Pillow. This is the only file that imports it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps, UnidentifiedImageError

from anylayer.errors import AnyLayerError, FileError, at, need
from anylayer.network import Array

__all__ = [
    "FORMATS", "MAX_PIXELS", "NETWORK_FORMATS", "Image", "ImageDraw", "ImageFont", "ImageOps", "from_array",
    "opened", "pixels", "png", "stored_values",
]  # fmt: skip


FORMATS = (
    *("AVIF", "BMP", "DDS", "DIB", "GIF", "ICO", "JPEG", "JPEG2000", "PCX", "PNG"),
    *("PPM", "PSD", "QOI", "SGI", "TGA", "TIFF", "WEBP", "XBM", "XPM"),
)
"""The formats of images that are read. Pillow decodes them in this process; it runs other programs for some of the
others (EPS)."""


@contextmanager
def opened(path: Path | IO[bytes], formats: tuple[str, ...] = FORMATS) -> Iterator[Image.Image]:
    """Open an image, in a file or in memory. Raises FileError for one that cannot be read or has too many pixels,
    also where the error occurs inside, and for floats and 32-bit integers, which Pillow limits to 0..255.

    formats: Pillow's names of the formats that are accepted. Versions before 11.3 do not have AVIF.
    """
    Image.init()
    with at(str(path) if isinstance(path, Path) else "the picture"), warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            with Image.open(path, formats=[name for name in formats if name in Image.OPEN]) as file:
                need(
                    file.mode not in ("F", "I"),
                    "the image has one channel of floats or of 32-bit integers, whose range is not known; store "
                    "it with 8 or 16 bits, or as .npy",
                    FileError,
                )
                yield file
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise FileError(f"the image has more than {Image.MAX_IMAGE_PIXELS} pixels") from None
        except UnidentifiedImageError:
            raise FileError("this is not an image of a known format") from None
        except FileNotFoundError:
            raise FileError("there is no such file") from None
        except AnyLayerError:
            raise
        except Exception as error:  # of Pillow's decoders, which raise many classes for damaged files
            raise FileError(f"the image cannot be read: {error}") from None


NETWORK_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
"""The formats of images that come over the network."""
MAX_PIXELS = Image.MAX_IMAGE_PIXELS or 2**26
"""The largest number of pixels of an image, and of all images of a request."""


def pixels(data: bytes) -> int:
    """Return the number of pixels of an encoded image, which is not decoded. Raises FileError."""
    with opened(BytesIO(data), NETWORK_FORMATS) as image:
        return image.width * image.height


def from_array(image: Array) -> Image.Image:
    """Return a uint8 array, (H, W) in gray or (H, W, 3) in BGR order, as an image."""
    return Image.fromarray(image if image.ndim == 2 else np.ascontiguousarray(image[:, :, ::-1]))


def png(image: Array) -> bytes:
    """Return a uint8 array, (H, W) in gray or (H, W, 3) in BGR order, as a PNG file."""
    buffer = BytesIO()
    from_array(np.ascontiguousarray(image)).save(buffer, format="png")
    return buffer.getvalue()


def stored_values(path: Path | IO[bytes]) -> Array:
    """Return the pixels of an image as the file stores them: gray (H, W), RGB (H, W, 3) or RGBA (H, W, 4), as
    bool, uint8 or uint16. Raises FileError."""
    with opened(path) as image:
        if image.mode in ("1", "L") or image.mode.startswith("I;16"):
            return np.asarray(image)
        transparent = "transparency" in image.info or image.mode in ("LA", "PA", "La", "RGBA", "RGBa")
        return np.asarray(image.convert("RGBA" if transparent else "RGB"))
