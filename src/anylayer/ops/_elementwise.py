"""Recording of elementwise pieces: operators of the shape and dtype of one array."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.tracing import record


class Pieces:
    """Records elementwise operators over arrays that broadcast to `x`; numbers become constants of its dtype."""

    def __init__(self, x: Any) -> None:
        self.shape, self.dtype = tuple(x.shape), np.dtype(x.dtype)

    def __call__(self, op: str, *inputs: Any, **attrs: Any) -> Any:
        arrays = [np.array(v, self.dtype) if isinstance(v, (int, float)) else v for v in inputs]
        return record(op, arrays, self.shape, self.dtype, **attrs)
