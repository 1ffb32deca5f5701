"""PassThrough (Ascend)."""

from __future__ import annotations

from anylayer.layer import layer
from anylayer.layers.caffe.reorg import ReorgAscend


@layer("PassThrough")
class PassThrough(ReorgAscend):
    """Move pixels into channels, keeping the channels of a pixel together (Ascend's Reorg under its inner name).

    (N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`; for the source see ReorgAscend in reorg.py.
    """
