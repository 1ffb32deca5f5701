"""Intervals that certainly contain the values of scalars that are computed from sizes and loop variables."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from anylayer.graph.expressions import Ranges, bounds
from anylayer.loops.ir import INT, Scalar
from anylayer.loops.space import Space

Interval = tuple[float, float]
INT32 = 2**31 - 1
"""The largest number of 32 bits."""
LARGEST_SIZE = 2**30
"""The largest size for which indices in 32 bits are proved to be enough."""
_ERROR = 1e-6
"""An upper bound of the relative error of an operation in single precision, on any device."""
_TINY = 1e-30
"""Below this, an operation in single precision may have a larger relative error."""
_HUGE = 1e30
"""Results beyond this may become infinite in single precision."""
_KINDS = ("float32", "float64", "int64")


class ScalarIntervals:
    """The least and the largest possible value of scalars for sizes in these ranges."""

    def __init__(self, space: Space, ranges: Ranges) -> None:
        self.space, self.ranges = space, ranges
        self.known: dict[Scalar, Interval | None] = {}

    def of(self, x: Scalar) -> Interval | None:
        """Return the interval of a scalar. None if it is not known, or if the scalar may be NaN."""
        if x not in self.known:
            self.known[x] = self._found(x)
        return self.known[x]

    def fits(self, x: Scalar) -> bool:
        """Return whether an integer, and the integers that it is computed from, certainly fit into 32 bits."""
        interval = self.of(x)
        inside = interval is not None and interval[0] >= -INT32 and interval[1] <= INT32
        return inside and all(self.fits(a) for a in x.args if a.dtype == INT)

    def _found(self, x: Scalar) -> Interval | None:
        if x.op == "load" and x.dtype.kind in "iu" and x.dtype.itemsize < 4:
            return np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
        if x.op == "load" and x.dtype.kind == "f" and x.data[0].data is not None:
            ends = float(x.data[0].data.min()), float(x.data[0].data.max())
            return ends if -_HUGE < ends[0] <= ends[1] < _HUGE else None
        if x.op == "load" and x.data[0].limit:
            return 0, x.data[0].limit - 1
        if x.dtype.name not in _KINDS:
            return None
        if x.op == "const":
            return (x.data, x.data) if abs(x.data) < _HUGE else None
        if x.op == "index":
            low, high = (self.space.bound(x.data, above) for above in (False, True))
            if low is None or high is None:
                return None
            least = bounds(low, self.ranges)[0]
            return (max(least, 0) if self.space.certain(low) else least), bounds(high, self.ranges)[1]
        if x.op == "where":
            interval = self._of_choice(*x.args)
        else:
            parts = [self.of(a) for a in x.args]
            interval = _FUNCTIONS[x.op](x, *parts) if x.op in _FUNCTIONS and None not in parts else None
        if interval is None or not max(map(abs, interval)) < (_HUGE if x.dtype.kind == "f" else 2**62):
            return None
        return (_below(interval[0]), -_below(-interval[1])) if x.dtype.kind == "f" else interval

    def _of_choice(self, condition: Scalar, a: Scalar, b: Scalar) -> Interval | None:
        """Return the interval of `a` where a condition holds, else `b`. If the condition is a > c or a >= c, `a`
        is selected only where it is not NaN and not below c.
        """
        first, second = self.of(a), self.of(b)
        if first is None and condition.op in ("gt", "ge") and condition.args[0] is a:
            least = self.of(condition.args[1])
            tops = [top for top in map(self.of, a.args if a.op == "min" else ()) if top is not None]
            if least is not None and tops:
                first = least[0], max(least[0], min(top[1] for top in tops))
        if first is None or second is None:
            return None
        return min(first[0], second[0]), max(first[1], second[1])


def _below(v: float) -> float:
    """Return a number that is not larger than `v` after rounding."""
    return v * (1 + _ERROR) - _TINY if v < 0 else v * (1 - _ERROR) if v > _TINY else 0.0


def _of_ends(x: Scalar, a: Interval, b: Interval, *reciprocals: Interval) -> Interval | None:
    """Return the interval of an operation of `a` and `b`, with its least and its largest value at their ends."""
    if x.op == "div" and (x.dtype.kind != "f" or b[0] <= _TINY):
        return None
    function = {"add": float.__add__, "sub": float.__sub__, "mul": float.__mul__, "div": float.__truediv__}[x.op]
    ends = [function(float(p), float(q)) for p in a for q in b]
    return min(ends), max(ends)


_FUNCTIONS: dict[str, Callable[..., Interval | None]] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), _of_ends),
    "min": lambda x, a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda x, a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "cast": lambda x, a: (math.trunc(a[0]), math.trunc(a[1])) if x.dtype.kind == "i" else a,
    "floor": lambda x, a: (math.floor(a[0]), math.floor(a[1])),
}
"""Function -> the interval of a scalar that it computes, from the scalar and the intervals of its arguments."""
