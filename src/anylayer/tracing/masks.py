"""Boolean masks that depend on data: x[mask] is represented by the whole array and the mask.

The size of x[mask] is known only when the network runs. `x[mask] *= s`, `x[mask] = 0`, `y[mask] = x[mask] * 2` and
`x[mask].sum()` are recorded as np.where and as reductions over all elements. An operation that needs the shape or
the elements of the selection makes an array of it, whose size depends on data: see anylayer.tracing.counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from anylayer import tracing
from anylayer.graph.place import describe
from anylayer.graph.sizes import broadcast, is_one, numpy_axis
from anylayer.network import Array, DType, Function
from anylayer.tracing.array import Selection, TracedArray, selected, wrapped
from anylayer.tracing.counts import certainly_selects, compressed, mask_of_positions, positions
from anylayer.tracing.dispatch import call_ufunc, resolved
from anylayer.tracing.dtypes import BOOL
from anylayer.tracing.keys import is_full, traced_masks
from anylayer.tracing.operators import install
from anylayer.tracing.primitives import AxisArg, cast, expand, reshape
from anylayer.tracing.rules.concatenation import array_like


class MaskSelection(Selection):
    """The selection x[mask].

    `whole` has the shape of x; only the elements where `mask` is true belong to the selection. `mask` has the rank
    of x, with size 1 along the axes that the original mask did not have. `axes` are those that it has: the
    selection has one axis in their place. `array` is the selection as an array, once it is made.
    """

    __slots__ = ("array", "axes", "mask", "whole")
    __hash__ = None  # type: ignore[assignment]  # unhashable, as NumPy's arrays are

    def __init__(self, whole: Array, mask: TracedArray, axes: range) -> None:
        self.whole, self.mask, self.axes = whole, mask, axes
        self.array: Any = None

    @property
    def dtype(self) -> DType:
        return self.whole.dtype

    def made(self) -> Any:
        if self.array is None:
            whole = expand(self.whole, self._shape())
            self.array = wrapped(self.mask._graph, compressed(whole, self._own_mask(), self.axes.start))
        return self.array

    def _own_mask(self) -> Any:
        """Return the mask without the axes that it did not have."""
        return reshape(self.mask, self.mask.shape[self.axes.start : self.axes.stop])

    def _shape(self) -> tuple[Any, ...]:
        return broadcast(self.whole.shape, self.mask.shape)

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

    def selects_as(self, mask: TracedArray, axes: range) -> bool:
        """Return whether this selection was made by `mask` along these axes."""
        return self.mask._value is mask._value and self.axes == axes

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        lazy = method == "__call__" and not kwargs and ufunc.nout == 1 and all(map(self._combines, inputs))
        if not lazy or any(type(t) is not MaskSelection or not self._combines(t) for t in out or ()):
            if out is not None:
                kwargs["out"] = out
            return getattr(ufunc, method)(*map(selected, inputs), **selected(kwargs))
        result = call_ufunc(ufunc, "__call__", [*map(_whole, inputs)], {})
        if out is not None:
            (target,) = out
            if not np.can_cast(result.dtype, target.dtype, "same_kind"):
                raise TypeError(
                    f"Cannot cast ufunc '{ufunc.__name__}' output from {result.dtype!r} to {target.dtype!r} with "
                    "casting rule 'same_kind'"
                )
            target.whole = result.astype(target.dtype)
            return target
        return self._with(result)

    def _combines(self, x: Any) -> bool:
        """Return whether an operator can compute with the whole arrays: `x` is a scalar or a selection by the same
        mask, and no array was made of either selection.
        """
        if type(x) is MaskSelection:
            return x.selects_as(self.mask, self.axes) and x.array is None and self.array is None
        return np.ndim(x) == 0 and self.array is None

    def __array_function__(self, func: Function, types: Any, args: Any, kwargs: Any) -> Any:
        if self.array is None and func in _REDUCTIONS and args and args[0] is self:
            return getattr(self, _REDUCTIONS[func])(*args[1:], **kwargs)
        elementwise = func in (np.clip, np.round, np.nan_to_num) or (func is np.where and len(args) == 3)
        if elementwise and not kwargs and all(x is None or self._combines(x) for x in args):
            return self._with(func(*map(_whole, args)))
        return func(*selected(args), **selected(kwargs))

    def astype(self, dtype: DTypeLike, **kwargs: Any) -> Any:
        if self.array is not None:
            return self.array.astype(dtype, **kwargs)
        same = np.dtype(dtype) == self.dtype and not kwargs.get("copy", True)
        return self if same else self._with(self.whole.astype(dtype, **kwargs))

    def copy(self, order: str = "C") -> Any:
        return self._with(self.whole.copy()) if self.array is None else self.array.copy()

    def clip(self, *args: Any, **kwargs: Any) -> Any:
        return np.clip(self, *args, **kwargs)

    def _reduces_whole(self, axis: AxisArg, keywords: Mapping[str, object] = {}) -> bool:
        """Return whether a reduction can be one of the whole array: of all elements or along the selected axis."""
        if self.array is not None or any(v is not None and v is not np._NoValue for v in keywords.values()):
            return False
        axes = axis if isinstance(axis, tuple) else (axis,)
        rank = self.whole.ndim - len(self.axes) + 1
        return axis is None or (len(axes) == 1 and numpy_axis(axes[0], rank) == self.axes.start)

    def _reduced_axes(self, axis: AxisArg) -> tuple[int, ...] | None:
        """Return the axes of the whole array that a reduction along `axis` reduces, None for all."""
        return None if axis is None else tuple(self.axes)

    def _reduce(self, function: Function, neutral: float, axis: AxisArg, keywords: Mapping[str, object]) -> Any:
        """Return `function` over the whole array, in which the elements that are not selected are `neutral`."""
        if not self._reduces_whole(axis, keywords):
            return function(self.made(), axis, **keywords)
        return function(np.where(self.mask, self.whole, self.dtype.type(neutral)), axis=self._reduced_axes(axis))

    def sum(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._reduce(np.sum, 0, axis, kwargs)

    def prod(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._reduce(np.prod, 1, axis, kwargs)

    def max(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._extreme(np.maximum, np.max, axis, kwargs)

    def min(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._extreme(np.minimum, np.min, axis, kwargs)

    def _extreme(self, ufunc: np.ufunc, function: Function, axis: AxisArg, keywords: Mapping[str, object]) -> Any:
        """Return the largest or smallest elements, and `initial` where nothing is selected."""
        others = {k: v for k, v in keywords.items() if k != "initial"}
        initial = keywords.get("initial", np._NoValue)
        if not self._reduces_whole(axis, others):
            return function(self.made(), axis, **keywords)
        if initial is np._NoValue:
            self._need_elements(ufunc.__name__)
        result = self._reduce(function, _extreme(self.dtype, ufunc is np.minimum), axis, others)
        return result if initial is np._NoValue else ufunc(result, np.asarray(initial, self.dtype))

    def _need_elements(self, name: str) -> None:
        """Raise NumPy's error for an empty selection on a path of its own, where the code may catch it. Elsewhere
        note that nothing checks for it.
        """
        error = ValueError(f"zero-size array to reduction operation {name} which has no identity")
        if not tracing.decisions.may_raise(lambda: ~np.any(self.mask), error) and not certainly_selects(
            self._own_mask()
        ):
            self.mask._graph.note(
                "max or min of a selection is an infinity or the limit of the integers where nothing is selected, "
                "and NumPy raises ValueError; ask for it first, as by if mask.any(), or give initial="
            )

    def any(self, axis: Any = None, **kwargs: Any) -> Any:
        if self.array is not None:
            return np.any(self.array, axis, **kwargs)
        return self._with(np.not_equal(self.whole, 0))._reduce(np.any, False, axis, kwargs)

    def all(self, axis: Any = None, **kwargs: Any) -> Any:
        if self.array is not None:
            return np.all(self.array, axis, **kwargs)
        return self._with(np.not_equal(self.whole, 0))._reduce(np.all, True, axis, kwargs)

    def mean(self, axis: Any = None, **kwargs: Any) -> Any:
        if not self._reduces_whole(axis, kwargs):
            return np.mean(self.made(), axis, **kwargs)
        total = self._reduce(np.sum, 0, axis, kwargs)
        selected = np.broadcast_to(self.mask, self.whole.shape)
        count = np.sum(selected, axis=self._reduced_axes(axis), dtype=np.int64)
        return total / count.astype(total.dtype if total.dtype.kind == "f" else np.float64)

    def __len__(self) -> int:
        return len(self.made())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.made())

    def __getitem__(self, key: Any) -> Any:
        return self.made()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.made()[key] = value

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        return np.asarray(self.made().__array__(*args, **kwargs))

    def __bool__(self) -> bool:
        return bool(self.made())

    def __float__(self) -> float:
        return float(self.made())

    def __int__(self) -> int:
        return int(self.made())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made(), name)


install(MaskSelection, lambda x: False)


def _whole(x: Any) -> Any:
    return x.whole if type(x) is MaskSelection else x


_REDUCTIONS = {
    np.sum: "sum", np.prod: "prod", np.max: "max", np.min: "min", np.mean: "mean", np.any: "any",
    np.all: "all",
}  # fmt: skip


def _extreme(dtype: DType, largest: bool) -> float:
    """Return the largest or smallest value of a dtype."""
    if dtype.kind == "f":
        return np.inf if largest else -np.inf
    if dtype == BOOL:
        return largest
    info = np.iinfo(dtype)
    return info.max if largest else info.min


def _full_rank_mask(x: TracedArray, key: Any) -> tuple[Any, range]:
    """Return the mask in `key`, with an axis of size 1 for each axis of `x` that it does not have, and its axes.

    Raises IndexError if the shapes do not match.
    """
    items = list(key) if type(key) is tuple else [key]
    mask = traced_masks(key)[0]
    at = next(i for i, k in enumerate(items) if k is mask)
    lead = at
    if any(k is Ellipsis for k in items[:at]):
        lead = x.ndim - mask.ndim - (len(items) - 1 - at)
    if lead < 0 or x.shape[lead : lead + mask.ndim] != mask.shape:
        raise IndexError(f"boolean index of shape {mask.shape} did not match indexed array of shape {x.shape}")
    full = mask._resolved().reshape((*[1] * lead, *mask.shape, *[1] * (x.ndim - lead - mask.ndim)))
    return full, range(lead, lead + mask.ndim)


def with_positions(key: Any) -> Any:
    """Return a key with each Selection in it made, and with positions in place of the masks that depend on data,
    unless the only other indices are `:` and `...`.
    """
    key = selected(key)
    return key if _is_alone(key) else positions_in(key)


def _is_alone(key: Any) -> bool:
    """Return whether a key consists of one mask that depends on data, and of `:` and `...`."""
    masks = traced_masks(key)
    items = list(key) if type(key) is tuple else [key]
    others = [k for k in items if not any(k is m for m in masks)]
    return len(masks) == 1 and all(k is Ellipsis or (isinstance(k, slice) and is_full(k)) for k in others)


def positions_in(key: Any) -> Any:
    """Return a key with positions in place of the masks that depend on data."""
    masks = traced_masks(key)
    if not masks:
        return key
    items: list[Any] = []
    for k in key if type(key) is tuple else (key,):
        items.extend(positions(k) if any(k is m for m in masks) else [k])
    return tuple(items)


def with_masks(key: Any, x: TracedArray) -> Any:
    """Return a key of `x` with a mask in place of all of its positions, if it is the only index along axes of its
    sizes: y[np.nonzero(mask)] is y[mask] then.
    """
    items = list(key) if type(key) is tuple else [key]
    folded_items: list[Any] = []
    while items:
        mask = mask_of_positions(items)
        folded_items.append(items[0] if mask is None else mask)
        del items[: 1 if mask is None else mask.ndim]
    folded = tuple(folded_items) if type(key) is tuple else folded_items[0]
    if not _is_alone(folded):
        return key
    try:
        _full_rank_mask(x, folded)
    except IndexError:
        return key
    return folded


def select_masked(x: TracedArray, key: Any) -> MaskSelection | None:
    """Return x[mask] if the key has a mask that depends on data, else None."""
    if not traced_masks(key):
        return None
    return MaskSelection(TracedArray(x._graph, x._up_to_date()), *_full_rank_mask(x, key))


def write_masked(x: TracedArray, key: Any, value: Any) -> bool:
    """Record x[key] = value if the only index is a mask that depends on data, and the value is a scalar, a row or
    a selection by the same mask.

    Return whether it was recorded.
    """
    if not _is_alone(key):
        return False
    mask, axes = _full_rank_mask(x, key)
    if type(value) is MaskSelection and value.array is None and value.selects_as(mask, axes):
        new: Array = value.whole
    else:
        new = array_like(resolved(selected(value)))
        rest = x.ndim - len(axes)
        new = new.reshape(()) if new.ndim == 1 and is_one(new.shape[0]) and rest == 0 else new
        if new.ndim > rest or (type(key) is tuple and new.ndim):
            return False
    new = cast(new._resolved() if type(new) is TracedArray else new, x.dtype)
    if broadcast(new.shape, x.shape) != x.shape:
        raise ValueError(f"could not broadcast input array from shape {new.shape} into shape {x.shape}")
    result = np.where(mask, new, x._resolved())
    x._assign(expand(result._resolved() if type(result) is TracedArray else result, x.shape))
    return True
