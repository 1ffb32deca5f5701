"""What the layers that resize a plane share: checks of sizes, and resampling.

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
