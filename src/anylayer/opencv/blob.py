"""Blobs from images and images from blobs, with OpenCV's arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anylayer.errors import InputError, need
from anylayer.images.preprocess import cover
from anylayer.images.resize import resize
from anylayer.network import Array
from anylayer.opencv import constants as c
from anylayer.opencv.errors import converted

_DEPTHS = {c.CV_8U: np.dtype(np.uint8), c.CV_32F: np.dtype(np.float32)}
_CHANNELS = (1, 3, 4)
_WHOLE = (np.uint8, np.uint16, np.int16)
"""The integer dtypes that images keep when they are resized, as in OpenCV."""

Size = tuple[int, int]
Numbers = float | Sequence[float] | Array


def scalar(values: Numbers) -> tuple[float, float, float, float]:
    """Return OpenCV's Scalar of a number or of at most four numbers: the missing ones are 0."""
    numbers = np.asarray(values, np.float64).ravel().tolist()
    need(len(numbers) <= 4, f"a scalar has at most 4 numbers, got {len(numbers)}", InputError)
    a, b, c, d = [*numbers, 0.0, 0.0, 0.0, 0.0][:4]
    return a, b, c, d


class Image2BlobParams:
    """How a blob is made from images: resize to `size` (width, height), subtract `mean`, multiply by
    `scalefactor`.

    `mean` and `scalefactor` are per channel, in the order of the blob's channels. `swapRB` exchanges the first and
    third channel. `paddingmode` says how an image of another aspect ratio becomes `size`. `borderValue` fills the
    border of DNN_PMODE_LETTERBOX.
    """

    @converted
    def __init__(
        self,
        scalefactor: Numbers = (1.0, 1.0, 1.0, 1.0),
        size: Sequence[int] = (0, 0),
        mean: Numbers = (),
        swapRB: bool = False,
        ddepth: int = c.CV_32F,
        datalayout: int = c.DNN_LAYOUT_NCHW,
        mode: int = c.DNN_PMODE_NULL,
        borderValue: Numbers = (),
    ) -> None:
        self.scalefactor, self.mean, self.borderValue = scalar(scalefactor), scalar(mean), scalar(borderValue)
        self.size = size_of(size)
        self.swapRB, self.ddepth, self.datalayout, self.paddingmode = swapRB, ddepth, datalayout, mode

    def __setattr__(self, name: str, value: Any) -> None:
        if value is None:
            return  # as in OpenCV, the attribute stays
        if name in ("scalefactor", "mean", "borderValue"):
            # a short list replaces the first values, in OpenCV
            rest = getattr(self, name, ())[np.size(value) :] if np.ndim(value) else ()
            value = scalar([*np.ravel(value), *rest])
        elif name == "size":
            value = size_of(value)
        object.__setattr__(self, name, value)

    @converted
    def blobRectToImageRect(self, rBlob: Sequence[int], size: Sequence[int]) -> Size | tuple[int, ...]:
        """Return a rectangle (x, y, width, height) of the blob as one of the image, whose size is `size`."""
        return tuple(int(v) for v in self.blobRectsToImageRects([rBlob], size)[0])

    @converted
    def blobRectsToImageRects(self, rBlob: Any, size: Sequence[int]) -> Array:
        """Return rectangles (N, 4) of the blob as int32 rectangles of the image, whose size is `size`."""
        width, height = size_of(size)
        need(
            width > 0 and height > 0, f"the image's size is {(width, height)}, sizes must be positive", InputError
        )
        rects = np.asarray(rBlob).reshape(-1, 4)
        blob, image = np.array(self.size, np.float32), np.array([width, height], np.float32)
        moved = rects.astype(np.float32)
        if self.paddingmode == c.DNN_PMODE_NULL:
            return np.asarray((moved * np.tile(image, 2) / np.tile(blob, 2)).astype(np.int32))
        if self.paddingmode == c.DNN_PMODE_CROP_CENTER:
            grow = (blob / image).max()
            corners = moved[:, :2].astype(np.float64) + 0.5 * (grow * image - blob)
            sizes = moved[:, 2:] / grow
            return np.asarray(np.concatenate([corners / float(grow), sizes], axis=1).astype(np.int32))
        grow = (blob / image).min()
        moved[:, :2] -= (np.array(self.size) - (image * grow).astype(np.int32)) // 2
        return np.asarray((moved / grow).astype(np.int32))


def size_of(size: Sequence[int]) -> Size:
    """Return a size as two ints, (width, height). Raise InputError for anything else."""
    try:
        width, height = (int(v) for v in size)
    except (TypeError, ValueError):
        raise InputError(f"a size is (width, height), got {size!r}") from None
    need(width >= 0 and height >= 0, f"a size cannot be negative, got {(width, height)}", InputError)
    return width, height


@converted
def blobFromImage(
    image: Array,
    scalefactor: float = 1.0,
    size: Sequence[int] = (0, 0),
    mean: Numbers = (),
    swapRB: bool = False,
    crop: bool = False,
    ddepth: int = c.CV_32F,
) -> Array:
    """Return a blob (1, C, H, W) of an image (H, W, C) or (H, W): (resized image - mean) * scalefactor.

    crop: keep the aspect ratio, and cut what exceeds `size` on both sides. Without `size`, the image is not
    resized. `mean` is in the order of the blob's channels. `ddepth` is CV_32F or CV_8U.
    """
    return blobFromImages([image], scalefactor, size, mean, swapRB, crop, ddepth)


@converted
def blobFromImages(
    images: Iterable[Array],
    scalefactor: float = 1.0,
    size: Sequence[int] = (0, 0),
    mean: Numbers = (),
    swapRB: bool = False,
    crop: bool = False,
    ddepth: int = c.CV_32F,
) -> Array:
    """Return a blob (N, C, H, W) of N images. The arguments are those of blobFromImage."""
    mode = c.DNN_PMODE_CROP_CENTER if crop else c.DNN_PMODE_NULL
    factors = (scalefactor,) * 4
    return blobFromImagesWithParams(
        images, Image2BlobParams(factors, size, mean, swapRB, ddepth, c.DNN_LAYOUT_NCHW, mode)
    )


@converted
def blobFromImageWithParams(image: Array, param: Image2BlobParams | None = None) -> Array:
    """Return a blob of one image, as the params say."""
    return blobFromImagesWithParams([image], param)


@converted
def blobFromImagesWithParams(images: Iterable[Array], param: Image2BlobParams | None = None) -> Array:
    """Return a blob of several images, as the params say."""
    param = param or Image2BlobParams()
    need(param.ddepth in _DEPTHS, f"ddepth is CV_32F (5) or CV_8U (0), got {param.ddepth}", InputError)
    if param.ddepth == c.CV_8U:
        plain = set(param.scalefactor) == {1.0} and not any(param.mean)
        need(plain, "a blob of CV_8U has no scalefactor and no mean; take ddepth=CV_32F", InputError)
    pixels = [_pixels(image) for image in images]
    need(pixels, "no images are given", InputError)
    size = param.size if any(param.size) else (pixels[0].shape[1], pixels[0].shape[0])
    ready = [_values(_resize(image, size, param), param) for image in pixels]
    shapes = {image.shape for image in ready}
    need(len(shapes) == 1, f"images of different channels: {sorted(s[2] for s in shapes)}", InputError)
    blob = np.stack(ready)
    if param.datalayout == c.DNN_LAYOUT_NCHW:
        return np.ascontiguousarray(blob.transpose(0, 3, 1, 2))
    need(
        param.datalayout == c.DNN_LAYOUT_NHWC,
        f"datalayout is DNN_LAYOUT_NCHW (2) or DNN_LAYOUT_NHWC (4), got {param.datalayout}",
        InputError,
    )
    return blob


def _pixels(image: Array) -> Array:
    """Return an image as an array (H, W, C) of a dtype of _WHOLE or of float32."""
    array = np.asarray(image)
    array = array[:, :, None] if array.ndim == 2 else array
    need(
        array.ndim == 3 and array.size > 0 and array.shape[2] in _CHANNELS,
        f"an image has the shape (H, W) or (H, W, C) with 1, 3 or 4 channels, got {np.shape(image)}"
        + ("" if array.size else "; an image that cannot be read is None or empty"),
        InputError,
    )
    need(array.dtype.kind in "uif", f"an image is an array of numbers, got {array.dtype}", InputError)
    return array if array.dtype in _WHOLE else array.astype(np.float32)


def _resize(image: Array, size: Size, param: Image2BlobParams) -> Array:
    """Return an image with the blob's size."""
    height, width = image.shape[:2]
    if (width, height) == size:
        return image
    if param.paddingmode == c.DNN_PMODE_CROP_CENTER:
        return cover(image, size[::-1])[0]
    if param.paddingmode == c.DNN_PMODE_LETTERBOX:
        grow32 = min(np.float32(size[0]) / np.float32(width), np.float32(size[1]) / np.float32(height))
        inner = int(np.float32(width) * grow32), int(np.float32(height) * grow32)
        framed = np.empty((size[1], size[0], image.shape[2]), image.dtype)
        framed[:] = np.array(param.borderValue[: image.shape[2]])
        need(min(inner) > 0, f"an image of {(width, height)} does not fit into {size}", InputError)
        top, left = (size[1] - inner[1]) // 2, (size[0] - inner[0]) // 2
        framed[top : top + inner[1], left : left + inner[0]] = resize(image, inner[::-1])
        return framed
    return resize(image, size[::-1])


def _values(image: Array, param: Image2BlobParams) -> Array:
    """Return (image - mean) * scalefactor, with exchanged channels where the params say so."""
    if param.swapRB and image.shape[2] >= 3:
        order = [2, 1, 0, 3][: image.shape[2]]
        image = image[:, :, order]
    if param.ddepth == c.CV_8U:
        need(image.dtype == np.uint8, f"a blob of CV_8U takes images of uint8, got {image.dtype}", InputError)
        return image
    channels = image.shape[2]
    mean, scale = (np.array(v[:channels], np.float32) for v in (param.mean, param.scalefactor))
    return (image.astype(np.float32) - mean) * scale


@converted
def imagesFromBlob(blob: Array) -> tuple[Array, ...]:
    """Return the images (H, W, C) of a float32 blob (N, C, H, W); (H, W) where it has one channel."""
    array = np.asarray(blob)
    need(
        array.ndim == 4 and array.dtype == np.float32,
        f"a blob of images is float32[N, C, H, W], got {array.dtype}{list(array.shape)}",
        InputError,
    )
    images = np.ascontiguousarray(array.transpose(0, 2, 3, 1))
    return tuple(images[..., 0] if array.shape[1] == 1 else images)
