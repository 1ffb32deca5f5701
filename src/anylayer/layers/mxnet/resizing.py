"""Operators that resize, pad or crop maps (N, C, H, W), or move pixels into channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need, need_shape
from anylayer.layer.arguments import need_sizes
from anylayer.layers._arrays import adaptive_mean
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import ANY, FLAG, INT, INTS, operators

_MAP = ("N", "C", "H", "W")
_IMAGE = "image/image_random.cc"


def _upsample(*xs: Array, scale: int, sample_type: str, multi_input_mode: str) -> Array:
    need(xs and scale >= 1, f"needs 1 input or more and a scale of 1 or more, got {len(xs)} and {scale}")
    need_shape(xs[0], _MAP, "input 0")
    if sample_type == "bilinear":
        need(len(xs) == 2, f"sample_type bilinear has 2 inputs, the map and the weights, got {len(xs)}")
        x, w = xs
        side, pad = 2 * scale - scale % 2, scale // 2
        need_shape(w, (x.shape[1], 1, side, side), "the weights")
        return ops.conv_transpose(x, w, strides=[scale, scale], pads=pad, group=x.shape[1])
    size = [d * scale for d in xs[0].shape[2:]]
    for x in xs[1:]:
        need_shape(x, _MAP, "an input")
        fits = all(n % d == 0 for n, d in zip(size, x.shape[2:])) and size[0] * x.shape[3] == size[1] * x.shape[2]
        need(fits, f"a map of {tuple(x.shape[2:])} pixels does not divide the output of {size}")
    maps = [ops.resize(x, size, mode="nearest", coordinates="asymmetric") for x in xs]
    return np.concatenate(maps, axis=1) if multi_input_mode == "concat" else sum(maps[1:], maps[0])


def _resize(
    x: Array, like: Array | None = None, *, height: int, width: int, scale_height: float | None,
    scale_width: float | None, mode: str, align_corners: bool,
) -> Array:  # fmt: skip
    need_shape(x, _MAP, "input 0")
    need((like is not None) == (mode == "like"), "mode like has a second input, and no other has one")
    size = [height, width] if like is None else [*like.shape[2:]]
    if like is None and scale_height is not None and scale_width is not None:
        size = [int(d * scale) for d, scale in zip(x.shape[2:], (scale_height, scale_width))]
    need_sizes([*x.shape[:2], *size])
    return ops.resize(x, size, coordinates="align_corners" if align_corners else "pytorch_half_pixel")


def _adaptive_mean(x: Array, output_size: Sequence[int]) -> Array:
    need_shape(x, _MAP, "input 0")
    need(len(output_size) <= 2, f"output_size must be 1 or 2 numbers, got {[*output_size]}")
    return adaptive_mean(x, [*output_size, *output_size][:2] or [1, 1])


def pad(x: Array, mode: str, pad_width: Sequence[int], constant_value: float) -> Array:
    count = 2 * len(x.shape)
    need(len(pad_width) == count and min(pad_width) >= 0, f"pad_width must be {count} numbers of 0 or more")
    pairs = list(zip(pad_width[::2], pad_width[1::2]))
    need_sizes([a + n + b for (a, b), n in zip(pairs, x.shape)])
    if mode != "constant":
        return np.pad(x, pairs, mode="edge" if mode == "edge" else "reflect")
    return np.pad(x, pairs, constant_values=x.dtype.type(constant_value))


def _crop(
    x: Array, like: Array | None = None, *, h_w: Sequence[int], offset: Sequence[int], center_crop: bool
) -> Array:
    need_shape(x, _MAP, "input 0")
    size = h_w if like is None else like.shape[2:]
    need(len(size) == len(offset) == 2, f"h_w and offset must be 2 numbers, got {[*size]} and {[*offset]}")
    start = [(n - d) // 2 for n, d in zip(x.shape[2:], size)] if center_crop else offset
    for n, d, low in zip(x.shape[2:], size, start):
        need(d > 0 and low >= 0 and low + d <= n, f"crops {d} cells at {low} of {n}")
    return x[:, :, start[0] : start[0] + size[0], start[1] : start[1] + size[1]]


def _to_tensor(x: Array) -> Array:
    need(len(x.shape) in (3, 4), f"takes images (H, W, C) or (N, H, W, C), got shape {tuple(x.shape)}")
    return np.moveaxis(x, -1, -3).astype(np.float32) / np.float32(255)


def _normalize(x: Array, mean: Sequence[float], std: Sequence[float]) -> Array:
    need(len(x.shape) in (3, 4), f"takes images (C, H, W) or (N, C, H, W), got shape {tuple(x.shape)}")
    counts = (1, x.shape[-3])
    need(len(mean) in counts and len(std) in counts, f"mean and std must be 1 or {counts[1]} numbers each")
    a, b = (np.array(values, x.dtype).reshape(-1, 1, 1) for values in (mean, std))
    return (x - a) / b


def _crop_image(image: Array, *, x: int, y: int, width: int, height: int) -> Array:
    h, w = image.shape[-3:-1]
    fits = min(x, y) >= 0 < min(width, height) and x + width <= w and y + height <= h
    need(fits, f"crops {height} x {width} pixels at {y}, {x} of {h} x {w}")
    return image[..., y : y + height, x : x + width, :]


_PAIR, _ONE = attribute("int32", (0, 0), repeated=True), attribute("int32", 1)
operators(
    {
        "UpSampling": row("Enlarge maps, and concatenate or add them.", _upsample, "nn/upsampling.cc",
            "nearest repeats each pixel of the first map scale times, and enlarges the others to this size. "
            "bilinear is a transposed convolution with the second input.",
            {"num_filter": attribute("int32", 0)}, scale=INT, sample_type=attribute(Enum("nearest", "bilinear")),
            multi_input_mode=attribute(Enum("concat", "sum"), "concat")),
        "_contrib_BilinearResize2D": row("Resize maps with bilinear interpolation.", _resize,
            "contrib/bilinear_resize.cc",
            "The size is height and width, or that of the map times scale_height and scale_width, or with mode "
            "like that of the second input.", height=_ONE, width=_ONE, scale_height=ANY, scale_width=ANY,
            mode=attribute(Enum("size", "like"), "size"), align_corners=attribute("bool", True)),
        "_contrib_AdaptiveAvgPooling2D": row("Compute the mean of output_size windows along height and width.",
            _adaptive_mean, "contrib/adaptive_avg_pooling.cc", output_size=INTS),
        "Pad pad": row("Pad all axes with a constant, the edge, or a reflection.", pad, "pad.cc",
            "pad_width has the number of cells before and after each axis.", pad_width=INTS,
            mode=attribute(Enum("constant", "edge", "reflect")), constant_value=attribute("double", 0.0)),
        "Crop": row("Crop maps to h_w, or to the size of a second input, at an offset or the center.", _crop,
            "crop.cc", h_w=_PAIR, offset=_PAIR, center_crop=FLAG),
        "_image_to_tensor": row("Return pixels (H, W, C) of 0 to 255 as (C, H, W) of 0 to 1.", _to_tensor, _IMAGE,
            "Also of a batch (N, H, W, C)."),
        "_image_normalize": row("Subtract the mean of each channel, and divide by its deviation.", _normalize,
            _IMAGE, "(C, H, W) or (N, C, H, W).", mean=attribute("float", (0.0,), repeated=True),
            std=attribute("float", (1.0,), repeated=True)),
        "_image_crop": row("Crop images (H, W, C) or (N, H, W, C).", _crop_image, _IMAGE, width=INT, height=INT,
            x=INT, y=INT),
        "_image_flip_left_right": row("Reverse the columns of images (H, W, C) or (N, H, W, C).",
            lambda x: np.flip(x, len(x.shape) - 2), _IMAGE),
        "_image_flip_top_bottom": row("Reverse the rows of images (H, W, C) or (N, H, W, C).",
            lambda x: np.flip(x, len(x.shape) - 3), _IMAGE),
        "space_to_depth": row("Move blocks of pixels into channels.",
            lambda x, block_size: ops.space_to_depth(x, block_size), "tensor/matrix_op.cc", block_size=INT),
        "depth_to_space": row("Move channels into blocks of pixels.",
            lambda x, block_size: ops.depth_to_space(x, block_size), "tensor/matrix_op.cc", block_size=INT),
    },
)  # fmt: skip
