"""Boolean masks that depend on data: x[mask] is represented by the whole array and the mask.

The size of x[mask] is known only when the network runs. `x[mask] *= s`, `x[mask] = 0`, `y[mask] = x[mask] * 2` and
`x[mask].sum()` are recorded as np.where and as reductions over all elements. An operation that needs the shape or
the elements of the selection raises TraceError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike

from anylayer.graph.place import describe, refusal
from anylayer.graph.sizes import broadcast, numpy_axis
from anylayer.network import Array
from anylayer.tracing.array import TracedArray
from anylayer.tracing.dispatch import call_ufunc, resolved
from anylayer.tracing.dtypes import BOOL
from anylayer.tracing.keys import is_full
from anylayer.tracing.primitives import cast, expand, is_constant
from anylayer.tracing.rules.concatenation import array_like
from anylayer.tracing.rules.operators import install

_USES = (
    "only elementwise operators, sum, mean, max, min, any, all of all elements or along the selected axis, and "
    "the assignment y[mask] = x[mask] are recorded"
)


class MaskSelection:
    """The selection x[mask].

    `whole` has the shape of x; only the elements where `mask` is true belong to the selection. `mask` has the rank
    of x, with size 1 along the axes that the original mask did not have. `axes` are those that it has: the
    selection has one axis in their place.
    """

    __slots__ = ("axes", "mask", "whole")
    __hash__ = None  # type: ignore[assignment]  # unhashable, as NumPy's arrays are

    def __init__(self, whole: Array, mask: TracedArray, axes: range) -> None:
        self.whole, self.mask, self.axes = whole, mask, axes

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.whole.dtype

    @property
    def __class__(self) -> type:
        return np.ndarray

    @__class__.setter
    def __class__(self, cls: type) -> None:
        raise TypeError("the __class__ of a traced array cannot be set")

    def __repr__(self) -> str:
        return f"traced {describe(self.whole)}[mask]"

    def _with(self, whole: Array) -> MaskSelection:
        """Return the selection of `whole` by the same mask."""
        return MaskSelection(whole, self.mask, self.axes)

    def has_mask(self, mask: TracedArray) -> bool:
        """Return whether this selection was made by `mask`."""
        return self.mask._value is mask._value

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise refusal(
            f"x[mask] of {describe(self.whole)} has a size that is known only when the network runs; {_USES}; "
            "otherwise use np.where(mask, x, 0)"
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if method != "__call__" or kwargs:
            self._refuse()
        result = call_ufunc(ufunc, "__call__", [self._operand(x) for x in inputs], {})
        if type(result) is tuple:
            return tuple(self._with(r) for r in result)
        if out is not None:
            (target,) = out
            if type(target) is not MaskSelection or not target.has_mask(self.mask):
                self._refuse()
            if not np.can_cast(result.dtype, target.dtype, "same_kind"):
                raise TypeError(
                    f"Cannot cast ufunc '{ufunc.__name__}' output from {result.dtype!r} to {target.dtype!r} with "
                    "casting rule 'same_kind'"
                )
            target.whole = result.astype(target.dtype)
            return target
        return self._with(result)

    def _operand(self, x: Any) -> Any:
        """Return a scalar unchanged, and a selection by the same mask as its whole array. Refuse anything else."""
        if type(x) is MaskSelection:
            if not x.has_mask(self.mask):
                raise refusal(
                    "two selections by different masks are combined, but their sizes may differ; use "
                    "np.where(mask, a, b)"
                )
            return x.whole
        if np.ndim(x) != 0:
            self._refuse()
        return x

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if func in _REDUCTIONS and args and args[0] is self:
            return getattr(self, _REDUCTIONS[func])(*args[1:], **kwargs)
        if func is np.clip and args[0] is self:
            return self._with(np.clip(self.whole, *args[1:], **kwargs))
        if func in (np.where, np.round, np.nan_to_num):
            parts: list[Any] = [a.whole if type(a) is MaskSelection else a for a in args]
            if all(type(a) is not MaskSelection or a.has_mask(self.mask) for a in args):
                return self._with(func(*parts, **kwargs))
        return self._refuse()

    def astype(self, dtype: DTypeLike, **kwargs: Any) -> MaskSelection:
        return self._with(self.whole.astype(dtype))

    def copy(self) -> MaskSelection:
        return self._with(self.whole.copy())

    def clip(self, *args: Any, **kwargs: Any) -> MaskSelection:
        return self._with(np.clip(self.whole, *args, **kwargs))

    def _reduced_axes(self, axis: Any) -> tuple[int, ...] | None:
        """Return the axes of the whole array that a reduction along `axis` of the selection reduces, None for all.

        The result of every other reduction than that of the selected axis has an unknown size.
        """
        if axis is None:
            return None
        axes = axis if isinstance(axis, tuple) else (axis,)
        if len(axes) != 1 or numpy_axis(axes[0], self.whole.ndim - len(self.axes) + 1) != self.axes.start:
            self._refuse()
        return tuple(self.axes)

    def _reduce(self, function: Callable[..., Any], neutral: float, axis: Any, keywords: Mapping[str, Any]) -> Any:
        """Return `function` over the whole array, in which the elements that are not selected are `neutral`."""
        if any(v is not None and v is not np._NoValue for v in keywords.values()):
            self._refuse()
        return function(np.where(self.mask, self.whole, self.dtype.type(neutral)), axis=self._reduced_axes(axis))

    def sum(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._reduce(np.sum, 0, axis, kwargs)

    def prod(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._reduce(np.prod, 1, axis, kwargs)

    def max(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._reduce(np.max, _extreme(self.dtype, False), axis, kwargs)

    def min(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._reduce(np.min, _extreme(self.dtype, True), axis, kwargs)

    def any(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._with(np.not_equal(self.whole, 0))._reduce(np.any, False, axis, kwargs)

    def all(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._with(np.not_equal(self.whole, 0))._reduce(np.all, True, axis, kwargs)

    def mean(self, axis: Any = None, **kwargs: Any) -> Any:
        total = self._reduce(np.sum, 0, axis, kwargs)
        selected = np.broadcast_to(self.mask, self.whole.shape)
        count = np.sum(selected, axis=self._reduced_axes(axis), dtype=np.int64)
        return total / count.astype(total.dtype if total.dtype.kind == "f" else np.float64)

    __len__ = __iter__ = __getitem__ = __setitem__ = __array__ = __bool__ = __float__ = __int__ = __index__ = (
        _refuse
    )

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(np.ndarray, name):
            self._refuse()
        raise AttributeError(f"'numpy.ndarray' object has no attribute '{name}'")


install(MaskSelection, lambda x: False)

_REDUCTIONS = {
    np.sum: "sum",
    np.prod: "prod",
    np.max: "max",
    np.min: "min",
    np.mean: "mean",
    np.any: "any",
    np.all: "all",
}


def _extreme(dtype: np.dtype[Any], largest: bool) -> float:
    """Return the largest or smallest value of a dtype."""
    if dtype.kind == "f":
        return np.inf if largest else -np.inf
    if dtype == BOOL:
        return largest
    info = np.iinfo(dtype)
    return info.max if largest else info.min


def _traced_masks(key: Any) -> list[TracedArray]:
    """Return the masks in a key that depend on data."""
    items = key if type(key) is tuple else (key,)
    return [k for k in items if type(k) is TracedArray and k.dtype == BOOL and not is_constant(k._resolved())]


def _full_rank_mask(x: TracedArray, key: Any) -> tuple[Any, range]:
    """Return the mask in `key`, with an axis of size 1 for each axis of `x` that it does not have, and its axes.

    Raises TraceError for a key that holds more than a mask, `:` and `...`, and IndexError if the shapes do not
    match.
    """
    items = list(key) if type(key) is tuple else [key]
    masks = _traced_masks(key)
    mask = masks[0]
    others = [k for k in items if k is not mask]
    if len(masks) > 1 or any(k is not Ellipsis and not (isinstance(k, slice) and is_full(k)) for k in others):
        raise refusal("a mask together with other indices cannot be recorded; use np.where")
    at = next(i for i, k in enumerate(items) if k is mask)
    lead = at
    if any(k is Ellipsis for k in items[:at]):
        lead = x.ndim - mask.ndim - (len(items) - 1 - at)
    if lead < 0 or x.shape[lead : lead + mask.ndim] != mask.shape:
        raise IndexError(f"boolean index of shape {mask.shape} did not match indexed array of shape {x.shape}")
    full = mask._resolved().reshape((*[1] * lead, *mask.shape, *[1] * (x.ndim - lead - mask.ndim)))
    return full, range(lead, lead + mask.ndim)


def select_masked(x: TracedArray, key: Any) -> MaskSelection | None:
    """Return x[mask] if the key has a mask that depends on data, else None."""
    if not _traced_masks(key):
        return None
    return MaskSelection(TracedArray(x._graph, x._up_to_date()), *_full_rank_mask(x, key))


def write_masked(x: TracedArray, key: Any, value: Any) -> bool:
    """Record x[key] = value if the key has a mask that depends on data, or if the value is a MaskSelection.

    Return whether it was recorded.
    """
    if type(value) is MaskSelection:
        if not _traced_masks(key) or not value.has_mask(_full_rank_mask(x, key)[0]):
            raise refusal("x[mask] is assigned under another mask; use the same mask: m = x < 0; y[m] = x[m] * 2")
        new: Array = value.whole
    elif not _traced_masks(key):
        return False
    else:
        new = array_like(resolved(value))
        rest = x.ndim - sum(k.ndim for k in _traced_masks(key))
        new = new.reshape(()) if new.shape == (1,) and rest == 0 else new
        if new.ndim > rest or (type(key) is tuple and new.ndim):
            raise refusal(
                "x[mask] = v needs as many values as the mask has true elements, which is known only when the "
                "network runs; assign a scalar, or use np.where(mask, v, x)"
            )
    mask, _ = _full_rank_mask(x, key)
    new = cast(new._resolved() if type(new) is TracedArray else new, x.dtype)
    if broadcast(new.shape, x.shape) != x.shape:
        raise ValueError(f"could not broadcast input array from shape {new.shape} into shape {x.shape}")
    x._assign(expand(_where(mask, new, x._resolved()), x.shape))
    return True


def _where(mask: Array, a: Array, b: Array) -> Array:
    result = np.where(mask, a, b)
    return result._resolved() if type(result) is TracedArray else result
