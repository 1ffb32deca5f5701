"""Corrections: operators that an engine computes wrongly become others that it computes right, or are refused.

Every graph that goes to an engine, or into a file that an engine runs, passes through `corrected`. The rules that
make graphs faster are elsewhere (tracing/rewrites) and may be left out; these may not.
"""

from __future__ import annotations

from anylayer.corrections import integers, onnxruntime, openvino, rounding  # noqa: F401 (enters their corrections)
from anylayer.corrections.machinery import Corrected, corrected

__all__ = ["Corrected", "corrected"]
