"""Values within limits."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import operator


@operator
def clip(x: Array, low: float, high: float) -> Array:
    """Return max(low, min(x, high)): NaN becomes `low`, and so does everything where low > high (ONNX Clip-13).

    This is the order of Caffe's std::max and std::min; np.clip keeps NaN. Engines may keep NaN, too.
    """
    kind = x.dtype.type
    return np.fmin(np.fmax(x, kind(low)), kind(max(low, high)))


@clip.form
def _(x: Array, low: float, high: float) -> Array:
    kind = x.dtype.type
    return np.clip(x, kind(low), kind(max(low, high)))
