"""Operators that TensorRT may compute differently from NumPy."""

from __future__ import annotations

from anylayer.corrections.corrector import Corrector
from anylayer.graph import Op, Value
from anylayer.optimize.rewrites.resizing import computed_by_cells, is_portable
from anylayer.optimize.rules import rule


@rule("Resize", kind="must", targets=("tensorrt",))
def _resize(new: Corrector, o: Op) -> list[Value] | None:
    """Compute by cells and weights what engines interpolate differently: cubic and antialiased Resizes, nearest
    cells whose positions are ties, and axes other than those of images."""
    return None if is_portable(o) else computed_by_cells(new, o)
