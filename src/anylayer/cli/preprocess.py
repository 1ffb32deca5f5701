"""How a picture becomes a network's input: resizing, mean, scale and channel order, in NumPy alone.

Pictures are uint8 (..., H, W, 3) in BGR order, as OpenCV holds them, or (..., H, W, 1) in gray. All of it can be
traced, so a network's file can hold it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anylayer.errors import InputError, need
from anylayer.network import Array, Preprocess, TensorType

_BITS = 11  # OpenCV's fixed point of an 8-bit resize: weights are multiples of 1 / 2048
_GRAY = (3735, 19235, 9798)  # OpenCV's weights of B, G, R, multiples of 1 / 32768


Scale = float | tuple[float, ...]
"""One factor, or one a channel."""


def _each(scale: Scale) -> tuple[float, ...]:
    return scale if isinstance(scale, tuple) else (scale,)


@dataclass(frozen=True)
class Placement:
    """Which part of the picture an input shows: `left`, `top`, `width`, `height` in the picture's pixels."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Recipe:
    """What is done to a picture, in this order: resize to `size` (height, width; None keeps the picture's own),
    swap the channels, subtract `mean`, cut the centre of `centre` pixels square, multiply by `scale`.

    `mean` is None, one value a channel (in the order after the swap), or (C, H, W) of the resized picture;
    `scale` is one value, or one a channel.
    With `cover` the picture is scaled to cover `size` and its centre is cut, else it is stretched.
    `source` says where the numbers come from.
    """

    size: tuple[int, int] | None = None
    mean: Array | None = None
    scale: Scale = 1.0
    swap: bool = False
    cover: bool = False
    gray: bool = False
    centre: int = 0
    source: str = "OpenCV's defaults"

    def __str__(self) -> str:
        words = []
        if self.size is None:
            words.append("its own size")
        else:
            words.append(f"{'cover and cut' if self.cover else 'resize'} to {self.size[1]}x{self.size[0]}")
        words.append("gray" if self.gray else "RGB" if self.swap else "BGR")
        if self.mean is not None:
            mean = self.mean
            values = ",".join(f"{m:g}" for m in mean) if mean.ndim == 1 else f"picture {list(mean.shape)}"
            words.append(f"minus mean {values}")
        if self.centre:
            words.append(f"centre {self.centre}x{self.centre}")
        if self.scale != 1:
            words.append(f"times {','.join(f'{s:g}' for s in _each(self.scale))}")
        return f"{', '.join(words)} ({self.source})"


def recipe_for(
    wanted: TensorType | None,
    own: Preprocess | None,
    *,
    last: bool = False,
    size: tuple[int, int] | str | None = None,
    mean: Array | None = None,
    scale: Scale | None = None,
    swap: bool = False,
    cover: bool = False,
    gray: bool = False,
    unasked: str = "no transform_param in the file, none asked for",
) -> Recipe:
    """The recipe for one input of a network: what is asked for, else the file's own, else OpenCV's defaults.

    `own` (the file's transform_param) counts only as long as none of mean, scale, swap, cover and gray is given.
    `size` is (height, width), "keep" for the picture's own, or None for the input's. `last` says that the input
    has its channels last; `unasked` says where the numbers come from if nobody asks for others.
    """
    channels, fixed = _wanted(wanted, last)
    if fixed is None and own is not None:
        fixed = (own.crop, own.crop) if own.crop else own.size
    gray = gray or channels == 1
    given = mean is not None or scale is not None or swap or cover or (gray and channels != 1)
    if own is None or given:
        where = "as asked" if given or size else unasked
        if own is not None:
            where = "as asked, in place of the file's transform_param"
        kept = None if size == "keep" else size if isinstance(size, tuple) else fixed
        need(kept or not cover, "--crop needs a --size to cover", InputError)
        recipe = Recipe(kept, mean, 1.0 if scale is None else scale, swap, cover, gray, 0, where)
    else:
        recipe = _own(own, gray or own.gray, fixed, size)
    _check_channels(recipe, channels)
    return recipe


def _wanted(wanted: TensorType | None, last: bool) -> tuple[int | None, tuple[int, int] | None]:
    if wanted is None:
        return None, None
    shape = wanted.shape
    need(
        len(shape) == 4,
        f"a picture fits an input of 4 dimensions {'(N, H, W, C)' if last else '(N, C, H, W)'}, this one is "
        f"{wanted}. Give an array (.npy)",
        InputError,
    )
    channels, height, width = (shape[3], *shape[1:3]) if last else shape[1:]
    need(channels in (1, 3), f"a picture has 1 or 3 channels, this input {wanted} has {channels}", InputError)
    return channels, (height, width)


def _own(own: Preprocess, gray: bool, fixed: Any, size: tuple[int, int] | str | None) -> Recipe:
    resized = size if isinstance(size, tuple) else fixed
    if own.mean is not None and own.mean.ndim == 3:
        full = own.mean.shape[1:]
        need(
            not isinstance(size, tuple) or size == full,
            f"--size {_size(size)} does not fit the mean picture of {_size(full)}",
            InputError,
        )
        resized = full
    elif own.crop and not isinstance(size, tuple):
        resized = own.size or (own.crop, own.crop)
    if size == "keep":
        resized = None
    where = own.source or "the file's transform_param"
    return Recipe(resized, own.mean, own.scale, False, False, gray, own.crop, where)


def _size(size: Any) -> str:
    return f"{size[1]}x{size[0]}" if isinstance(size, tuple) else str(size)


def _check_channels(recipe: Recipe, channels: int | None) -> None:
    have = 1 if recipe.gray else 3
    need(
        channels in (None, have),
        f"--gray makes 1 channel, the input has {channels}",
        InputError,
    )
    need(
        len(_each(recipe.scale)) in (1, have),
        f"the scale has {len(_each(recipe.scale))} values, the input has {have} channels",
        InputError,
    )
    if recipe.mean is not None:
        need(
            len(recipe.mean) in (1, have),
            f"the mean has {len(recipe.mean)} values, the input has {have} channels",
            InputError,
        )


def prepare(picture: Array, recipe: Recipe) -> tuple[Array, Placement]:
    """The input (C, H, W) in float32 that `recipe` makes of a picture, and which part of the picture it shows."""
    height, width = picture.shape[-3:-1]
    place = Placement(0, 0, width, height)
    if recipe.gray and picture.shape[-1] == 3:
        picture = to_gray(picture)
    if recipe.size is not None and recipe.size != (height, width):
        picture, place = _cover(picture, recipe.size) if recipe.cover else (resize(picture, recipe.size), place)
    if recipe.swap:
        picture = picture[..., ::-1]
    x = np.moveaxis(picture, -1, -3).astype(np.float32)
    if recipe.mean is not None:
        x = x - _mean(recipe.mean, x.shape)
    if recipe.centre:
        x, place = _centre(x, recipe.centre, place)
    if recipe.scale != 1:
        x = x * np.array(_each(recipe.scale), np.float32).reshape(-1, 1, 1)
    return x, place


def picture_function(recipe: Recipe, last: bool, rgb: bool) -> Callable[[Array], Array]:
    """Return a function of pictures, uint8 (N, H, W, 3), that returns the input (N, C, H, W) in float32.

    rgb: the pictures are in RGB order, else BGR. last: the input is (N, H, W, C).
    """

    def preprocess(picture: Array) -> Array:
        x, _ = prepare(picture[..., ::-1] if rgb else picture, recipe)
        return np.moveaxis(x, -3, -1) if last else x

    return preprocess


def _mean(mean: Array, shape: tuple[int, ...]) -> Array:
    if mean.ndim == 1:
        return mean.astype(np.float32).reshape(-1, 1, 1)
    need(
        mean.shape[1:] == shape[1:],
        f"the mean picture is {_size(mean.shape[1:])}, the resized picture {_size(shape[1:])}. Give --size "
        f"{_size(mean.shape[1:])}, or one mean for each channel",
        InputError,
    )
    return mean.astype(np.float32)


def _centre(x: Array, crop: int, place: Placement) -> tuple[Array, Placement]:
    """The centre of `crop` pixels square, as Caffe's data_transformer.cpp cuts it in phase TEST."""
    height, width = x.shape[-2:]
    need(
        height >= crop and width >= crop,
        f"crop_size {crop} does not fit a picture of {width}x{height}: give a larger --size",
        InputError,
    )
    top, left = (height - crop) // 2, (width - crop) // 2
    sx, sy = place.width / width, place.height / height
    cut = Placement(place.left + left * sx, place.top + top * sy, crop * sx, crop * sy)
    return x[..., top : top + crop, left : left + crop], cut


def _cover(picture: Array, size: tuple[int, int]) -> tuple[Array, Placement]:
    """Scaled to cover `size`, then the centre: blobFromImage's crop=True."""
    height, width = picture.shape[-3:-1]
    factor = float(max(np.float32(size[1]) / np.float32(width), np.float32(size[0]) / np.float32(height)))
    scaled = round(height * factor), round(width * factor)
    need(
        scaled[0] >= size[0] and scaled[1] >= size[1],
        f"a picture of {width}x{height} scaled by {factor:g} does not cover {_size(size)}",
        InputError,
    )
    picture = resize(picture, scaled, factor)
    top, left = (scaled[0] - size[0]) // 2, (scaled[1] - size[1]) // 2
    place = Placement(left / factor, top / factor, size[1] / factor, size[0] / factor)
    return picture[..., top : top + size[0], left : left + size[1], :], place


def to_gray(picture: Array) -> Array:
    """(H, W, 3) in BGR order to (H, W, 1): 0.299 R + 0.587 G + 0.114 B in OpenCV's fixed point (cvtColor)."""
    weights = np.array(_GRAY, np.int32)
    return ((picture.astype(np.int32) @ weights + (1 << 14)) >> 15).astype(np.uint8)[..., None]


def resize(picture: Array, size: tuple[int, int], factor: float | None = None) -> Array:
    """A uint8 picture (H, W, C) resized to `size` (height, width), equal to cv::resize with INTER_LINEAR.

    Half-pixel centres, no antialiasing, weights of 11 bits. `factor` is the exact scale where `size` is only
    its rounding (cv::resize called with fx and fy).
    Source: OpenCV modules/imgproc/src/resize.cpp (HResizeLinear, VResizeLinear for uchar).
    """
    height, width = picture.shape[-3:-1]
    y, wy = _taps(height, size[0], factor)
    x, wx = _taps(width, size[1], factor)
    inside = (x >= 0) & (x < width - 1)
    wx = np.where(inside, wx, np.float32(0))
    left = np.clip(x, 0, width - 1)
    right = np.minimum(left + 1, width - 1)
    one = np.float32(1)
    a0, a1 = _fixed(one - wx)[:, None], _fixed(wx)[:, None]
    b0, b1 = _fixed(one - wy)[:, None, None], _fixed(wy)[:, None, None]
    top, bottom = np.clip(y, 0, height - 1), np.clip(y + 1, 0, height - 1)
    used, where = np.unique(np.stack([top, bottom]), return_inverse=True)
    source = picture[..., used, :, :].astype(np.int32)
    rows = (source[..., left, :] * a0 + source[..., right, :] * a1) >> 4
    upper, lower = where.reshape(2, -1)
    blended: Array = (
        (((b0 * rows[..., upper, :, :]) >> 16) + ((b1 * rows[..., lower, :, :]) >> 16) + 2) >> 2
    ).astype(np.uint8)
    return blended


def _taps(source: int, target: int, factor: float | None) -> tuple[Array, Array]:
    """The first of two source pixels and the second's weight, for each target pixel."""
    step = 1.0 / (factor if factor is not None else target / source)
    at = ((np.arange(target) + 0.5) * step - 0.5).astype(np.float32)
    first = np.floor(at)
    return first.astype(np.int64), at - first


def _fixed(weight: Array) -> Array:
    fixed: Array = np.rint(weight * np.float32(1 << _BITS)).astype(np.int32)
    return fixed


def with_mean(own: Preprocess, mean: Array) -> Preprocess:
    """`own` with the picture of its mean file: (C, H, W), led by ones or not."""
    need(
        mean.ndim >= 3 and math.prod(mean.shape[:-3]) == 1 and mean.shape[-3] in (1, 3),
        f"a mean picture has shape (3, H, W), got {mean.shape}",
        InputError,
    )
    return replace(own, mean=mean.reshape(mean.shape[-3:]))
