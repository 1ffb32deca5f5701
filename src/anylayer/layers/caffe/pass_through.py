"""PassThrough (Ascend)."""

from __future__ import annotations

from anylayer.layer import layer
from anylayer.layers.caffe.reorg import ReorgAscend


@layer("PassThrough")
class PassThrough(ReorgAscend):
    """Pixels into channels so that the channels of a pixel stay together: Ascend's Reorg under its inner name.

    Shapes and source: see ReorgAscend in reorg.py.
    """
