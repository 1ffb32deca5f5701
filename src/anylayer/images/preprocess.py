"""Preprocess images for a network's input in NumPy: resizing, mean, scale and channel order.

Images are uint8 (..., H, W, 3) in BGR order, as in OpenCV, or (..., H, W, 1) in gray. All functions can be traced,
so the file of a network can contain them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anylayer.errors import InputError, need, plural, wording
from anylayer.graph.symbolic import Size
from anylayer.images.resize import resize  # by its name, so that the tracer follows it at open sizes
from anylayer.network import Array, DType, Preprocess, TensorType, open_text

_GRAY = (3735, 19235, 9798)
"""OpenCV's weights of B, G, R for gray, in multiples of 1 / 32768."""

Scale = float | tuple[float, ...]
"""One factor, or one per channel."""


def _factors(scale: Scale) -> tuple[float, ...]:
    return scale if isinstance(scale, tuple) else (scale,)


@dataclass(frozen=True)
class Placement:
    """The part of an image that an input shows, in pixels of the original image."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Recipe:
    """How an image is preprocessed, in this order.

    size: resize to (height, width); None keeps the image's size. With `cover` the image is scaled to cover the
        size and its center is cropped, with `letterbox` it is scaled to fit into the size and the rest is gray;
        otherwise its aspect ratio changes.
    swap: swap BGR to RGB. gray: convert to one channel.
    mean: subtract this: one value per channel in the order after the swap, or (C, H, W) of the resized image.
    center: crop the center of this many pixels square; 0 for none.
    scale: multiply by this factor, or by one factor per channel.
    source: where the numbers come from.
    """

    size: tuple[int, int] | None = None
    mean: Array | None = None
    scale: Scale = 1.0
    swap: bool = False
    cover: bool = False
    gray: bool = False
    center: int = 0
    source: str = "OpenCV's defaults"
    letterbox: bool = False

    def __str__(self) -> str:
        words = []
        if self.size is None:
            words.append("original size")
        else:
            how = "cover and crop" if self.cover else "letterbox" if self.letterbox else "resize"
            words.append(f"{how} to {self.size[1]}x{self.size[0]}")
        words.append("gray" if self.gray else "RGB" if self.swap else "BGR")
        if self.mean is not None:
            mean = self.mean
            values = ",".join(f"{m:g}" for m in mean) if mean.ndim == 1 else f"image {list(mean.shape)}"
            words.append(f"minus mean {values}")
        if self.center:
            words.append(f"center {self.center}x{self.center}")
        if self.scale != 1:
            words.append(f"times {','.join(f'{s:g}' for s in _factors(self.scale))}")
        return f"{', '.join(words)} ({self.source})"


def recipe_for(
    input_type: TensorType | tuple[int | None, ...] | None,
    from_file: Preprocess | None,
    *,
    channels_last: bool = False,
    size: tuple[int, int] | str | None = None,
    mean: Array | None = None,
    scale: Scale | None = None,
    swap: bool = False,
    cover: bool = False,
    gray: bool = False,
    default_source: str = "no transform_param in the file, no options given",
) -> Recipe:
    """Return the recipe for one input of a network: from the options, else from the file, else OpenCV's defaults.

    `input_type` is a shape with None for open sizes where the file leaves sizes open, and None if it is unknown.
    `from_file` (the file's transform_param) is ignored if one of mean, scale, swap, cover and gray is given.
    `size` is (height, width), "keep" for the image's size, or None for the input's. `default_source` is the source
    of a recipe with defaults only. Raises InputError for an input that is no image, or options that do not fit it.
    """
    channels, fixed = _channels_and_size(input_type, channels_last)
    if fixed is None and from_file is not None:
        fixed = (from_file.crop, from_file.crop) if from_file.crop else from_file.size
    gray = gray or channels == 1
    given = mean is not None or scale is not None or swap or cover or (gray and channels != 1)
    if from_file is None or given:
        source = "from the options" if given or size else default_source
        if from_file is not None:
            source = "from the options, which replace the file's transform_param"
        target = None if size == "keep" else size if isinstance(size, tuple) else fixed
        need(target or not cover, "--crop needs a --size to cover", InputError)
        recipe = Recipe(target, mean, 1.0 if scale is None else scale, swap, cover, gray, 0, source)
    else:
        recipe = _recipe_of_file(from_file, gray or from_file.gray, fixed, size)
    _check_channels(recipe, channels)
    return recipe


def _channels_and_size(
    input_type: TensorType | tuple[int | None, ...] | None, channels_last: bool
) -> tuple[int | None, tuple[int, int] | None]:
    """Return an input's channels and (height, width), each None where it is unknown."""
    if input_type is None:
        return None, None
    shape, text = (
        (input_type, open_text(input_type))
        if isinstance(input_type, tuple)
        else (input_type.shape, str(input_type))
    )
    need(
        len(shape) == 4,
        f"an image needs an input of 4 dimensions {'(N, H, W, C)' if channels_last else '(N, C, H, W)'}, this one "
        f"is {text}. Give an array (.npy)",
        InputError,
    )
    channels, height, width = (shape[3], *shape[1:3]) if channels_last else shape[1:]
    rule = f"an image has 1 or 3 channels, but this input {text} has {channels}"
    need(channels in (None, 1, 3), rule, InputError)
    return channels, None if height is None or width is None else (height, width)


def _recipe_of_file(
    own: Preprocess, gray: bool, fixed: tuple[int, int] | None, size: tuple[int, int] | str | None
) -> Recipe:
    """Return the recipe of a file's transform_param. `fixed` is the input's size, `size` the option's."""
    resized = size if isinstance(size, tuple) else fixed
    if own.mean is not None and own.mean.ndim == 3:
        full = own.mean.shape[1:]
        need(
            not isinstance(size, tuple) or size == full,
            f"--size {_size(size)} does not fit the mean image of {_size(full)}",
            InputError,
        )
        resized = full
    elif own.crop and not isinstance(size, tuple):
        resized = own.size or (own.crop, own.crop)
    if size == "keep":
        resized = None
    source = own.source or "the file's transform_param"
    return Recipe(resized, own.mean, own.scale, False, False, gray, own.crop, source, own.letterbox)


def _size(size: Sequence[int] | str | None) -> str:
    return str(size) if size is None or isinstance(size, str) else f"{size[1]}x{size[0]}"


def _check_channels(recipe: Recipe, channels: int | None) -> None:
    have = 1 if recipe.gray else 3
    need(channels in (None, have), f"--gray gives 1 channel, but the input has {channels}", InputError)
    need(
        len(_factors(recipe.scale)) in (1, have),
        f"the scale has {len(_factors(recipe.scale))} values, but the input has {plural(have, 'channel')}",
        InputError,
    )
    if recipe.mean is not None:
        need(
            len(recipe.mean) in (1, have),
            f"the mean has {plural(len(recipe.mean), 'value')}, but the input has {plural(have, 'channel')}",
            InputError,
        )


def prepare(image: Array, recipe: Recipe) -> tuple[Array, Placement]:
    """Preprocess an image. Return the input (..., C, H, W) in float32, and the part of the image that it shows."""
    height, width = image.shape[-3:-1]
    place = Placement(0, 0, width, height)
    if recipe.gray and image.shape[-1] == 3:
        image = to_gray(image)
    if recipe.size is not None and (isinstance(height, Size) or recipe.size != (height, width)):
        fit = cover if recipe.cover else letterbox if recipe.letterbox else None
        image, place = fit(image, recipe.size) if fit is not None else (resize(image, recipe.size), place)
    if recipe.swap:
        image = image[..., ::-1]
    x = np.moveaxis(image, -1, -3).astype(np.float32)
    if recipe.mean is not None:
        x = x - _mean(recipe.mean, x.shape)
    if recipe.center:
        x, place = _center_crop(x, recipe.center, place)
    if recipe.scale != 1:
        x = x * np.array(_factors(recipe.scale), np.float32).reshape(-1, 1, 1)
    return x, place


def as_input(image: Array, channels_last: bool, dtype: DType) -> Array:
    """Return a preprocessed image (C, H, W) as an input (1, C, H, W), or (1, H, W, C) with `channels_last`.

    Raises InputError for int8, which does not hold pixels from 0 to 255.
    """
    need(dtype != np.int8, "the input is int8, which does not hold pixels; give an array (.npy)", InputError)
    return np.ascontiguousarray(np.moveaxis(image, -3, -1) if channels_last else image, dtype)[None]


def image_function(
    recipe: Recipe, channels_last: bool, rgb: bool, taken: Collection[str] = ()
) -> Callable[[Array], Array]:
    """Return a function that preprocesses images, uint8 (N, H, W, 3), to the input (N, C, H, W) in float32.

    rgb: the images are in RGB order, else BGR. channels_last: the input is (N, H, W, C). Its parameter is "image",
    or "picture" if "image" is one of the names that are `taken`.
    """

    def preprocess(image: Array) -> Array:
        x, _ = prepare(image[..., ::-1] if rgb else image, recipe)
        return np.moveaxis(x, -3, -1) if channels_last else x

    def preprocess_picture(picture: Array) -> Array:
        return preprocess(picture)

    return preprocess_picture if "image" in taken else preprocess


def _mean(mean: Array, shape: tuple[int, ...]) -> Array:
    if mean.ndim == 1:
        return mean.astype(np.float32).reshape(-1, 1, 1)
    need(
        mean.shape[1:] == shape[1:],
        f"the mean image is {_size(mean.shape[1:])}, but the resized image is {_size(shape[1:])}. Give "
        f"{wording(f'size={tuple(mean.shape[1:])}', f'--size {_size(mean.shape[1:])}')}, or one mean per channel",
        InputError,
    )
    return mean.astype(np.float32)


def _center_crop(x: Array, crop: int, place: Placement) -> tuple[Array, Placement]:
    """Crop the center of `crop` pixels square, as Caffe does in phase TEST (data_transformer.cpp)."""
    height, width = x.shape[-2:]
    need(
        height >= crop and width >= crop,
        f"crop_size {crop} does not fit an image of {width}x{height}: give a larger {wording('size', '--size')}",
        InputError,
    )
    top, left = (height - crop) // 2, (width - crop) // 2
    sx, sy = place.width / width, place.height / height
    cut = Placement(place.left + left * sx, place.top + top * sy, crop * sx, crop * sy)
    return x[..., top : top + crop, left : left + crop], cut


def cover(image: Array, size: tuple[int, int]) -> tuple[Array, Placement]:
    """Return the center of an image that is scaled to cover `size` (height, width), and the part that it shows.

    OpenCV's blobFromImage does so with crop=True.
    """
    height, width = image.shape[-3:-1]
    factor = float(max(np.float32(size[1]) / np.float32(width), np.float32(size[0]) / np.float32(height)))
    scaled = round(height * factor), round(width * factor)
    need(
        scaled[0] >= size[0] and scaled[1] >= size[1],
        f"an image of {width}x{height} scaled by {factor:g} does not cover {_size(size)}",
        InputError,
    )
    image = resize(image, scaled, factor)
    top, left = (scaled[0] - size[0]) // 2, (scaled[1] - size[1]) // 2
    place = Placement(left / factor, top / factor, size[1] / factor, size[0] / factor)
    return image[..., top : top + size[0], left : left + size[1], :], place


def letterbox(image: Array, size: tuple[int, int]) -> tuple[Array, Placement]:
    """Return an image in float32, scaled to fit into the middle of `size` (height, width), and the part that it
    shows, which is larger than the image. The rest is gray, 127.5.

    Source: AlexeyAB/darknet src/image.c, letterbox_image.
    """
    (height, width), (h, w) = image.shape[-3:-1], size
    inner = min(h, height * w // width), min(w, width * h // height)
    need(min(inner) > 0, f"an image of {width}x{height} does not fit into {_size(size)}", InputError)
    top, left = (h - inner[0]) // 2, (w - inner[1]) // 2
    pads = (*((0, 0),) * (image.ndim - 3), (top, h - inner[0] - top), (left, w - inner[1] - left), (0, 0))
    y = np.pad(resize(image, inner).astype(np.float32), pads, constant_values=127.5)
    sy, sx = height / inner[0], width / inner[1]
    return y, Placement(-left * sx, -top * sy, w * sx, h * sy)


def to_gray(image: Array) -> Array:
    """Convert BGR (H, W, 3) to gray (H, W, 1), 0.299 R + 0.587 G + 0.114 B, exactly like cv::cvtColor."""
    weights = np.array(_GRAY, np.int32)
    return ((image.astype(np.int32) @ weights + (1 << 14)) >> 15).astype(np.uint8)[..., None]


def with_mean(own: Preprocess, mean: Array) -> Preprocess:
    """Return the preprocessing with a mean image (..., C, H, W), whose leading axes have size 1."""
    need(
        mean.ndim >= 3 and math.prod(mean.shape[:-3]) == 1 and mean.shape[-3] in (1, 3),
        f"a mean image has shape (3, H, W), got {mean.shape}",
        InputError,
    )
    return replace(own, mean=mean.reshape(mean.shape[-3:]))
