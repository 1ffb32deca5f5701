"""What the layers that resize a plane share: checks of sizes, resampling, and pixels moved into channels.

Positions are computed from sizes only, in the float32 arithmetic of the C code.
"""

from __future__ import annotations

from anylayer import ops
from anylayer.errors import need
from anylayer.layer.arguments import plain, same
from anylayer.network import Array

MAX_SIDE = 1 << 15  # rows, and columns, of an output
MAX_PLANE_CELLS = 1 << 27  # pixels of an output


def plane_of(x: Array, what: str = "input 0") -> tuple[int, int]:
    """Return the height and width of a blob (N, C, H, W)."""
    need(len(x.shape) == 4, f"{what} must be of shape (N, C, H, W), got {tuple(x.shape)}")
    return x.shape[2], x.shape[3]


def need_plane(height: int, width: int) -> None:
    """Refuse an output plane that is empty or exceeds the limits."""
    height, width = plain((height, width))
    need(
        0 < height <= MAX_SIDE and 0 < width <= MAX_SIDE,
        f"the output must have 1..{MAX_SIDE} rows and columns, got {height} x {width}",
    )
    need(
        height * width <= MAX_PLANE_CELLS,
        f"the output must have at most {MAX_PLANE_CELLS} pixels, got {height} x {width}",
    )


def whole_factor(size: int, samples: int) -> int:
    """Return samples / size where that is the same integer at every size of the inputs, else 0."""
    small, large = plain((size, samples))
    times = large // small if small else 0
    return times if same(samples, size * times) else 0


def repeat_pixels(x: Array, tall: int, wide: int) -> Array:
    """Return `x` (..., H, W) with each pixel repeated as a block of `tall` x `wide`."""
    h, w = x.shape[-2:]
    need_plane(h * tall, w * wide)
    return ops.resize(x, (h * tall, w * wide), mode="nearest", coordinates="asymmetric", nearest="floor")


def align_corners(x: Array, size: tuple[int, int]) -> Array:
    """Return `x` (N, C, H, W), interpolated so that the first and last pixels stay at the ends of the new size.

    A size of 1 selects the first pixel.
    Source: DeepLab caffe src/caffe/util/interp.cpp.
    """
    return ops.resize(x, size, mode="linear", coordinates="align_corners", by_step=True)


def into_channels(x: Array, stride: int) -> Array:
    """Return (N, C * s * s, H / s, W / s): pixels of blocks moved into channels.

    Channel (dy * s + dx) * C + c holds pixel (dy, dx) of each block in channel c.
    """
    need_blocks(x, stride)
    return ops.space_to_depth(x, stride)


def into_pixels(x: Array, stride: int) -> Array:
    """Return (N, C / s / s, H * s, W * s): the inverse of `into_channels`."""
    h, w = plane_of(x)
    need_groups(x, stride)
    need_plane(h * stride, w * stride)
    return ops.depth_to_space(x, stride, mode="DCR")


def darknet_order(x: Array, stride: int) -> Array:
    """Return (N, C * s * s, H / s, W / s): pixels moved into channels in the order of Darknet.

    The elements, in C order, are read as a map of C / s / s channels and s * H x s * W pixels, whose blocks of
    pixels become channels, block by block.
    """
    need_blocks(x, stride)
    need_groups(x, stride)
    n, c, h, w = x.shape
    seen = x.reshape(n, c // stride**2, h * stride, w * stride)
    return ops.space_to_depth(seen, stride).reshape(n, c * stride**2, h // stride, w // stride)


def need_blocks(x: Array, stride: int) -> None:
    h, w = plane_of(x)
    need(stride >= 1, f"stride must be at least 1, got {stride}")
    need(h % stride == 0 and w % stride == 0, f"stride={stride} does not divide {h} x {w} pixels")


def need_groups(x: Array, stride: int) -> None:
    plane_of(x)
    need(stride >= 1, f"stride must be at least 1, got {stride}")
    need(x.shape[1] % stride**2 == 0, f"stride={stride} squared does not divide {x.shape[1]} channels")
