"""Pixels of blocks moved into channels and back, in the orders of Caffe's forks and of Darknet."""

from __future__ import annotations

from anylayer import ops
from anylayer.errors import need
from anylayer.layers._resampling import need_plane, plane_of
from anylayer.network import Array


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
