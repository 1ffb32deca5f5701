"""What a loop carries from step to step, and what it iterates over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anylayer import tracing
from anylayer.graph.place import refusal
from anylayer.graph.symbolic import Size, depends_on_data, extreme, same_shape
from anylayer.network import Array
from anylayer.tracing.array import Selection, TracedArray
from anylayer.tracing.dtypes import I8
from anylayer.tracing.grown import GrownList, TracedList, as_traced, heap_of, index_of
from anylayer.tracing.primitives import as_array
from anylayer.tracing.python_numbers import PythonNumber, Scalar, as_arrays, as_dtype_of, kind_of, number


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a value that a loop carries.

    name: "number", "scalar", "array" or "tuple"; "reference" to an object in a list, and "constant" in an
    attribute of one: see objects. of: the Python type of a number, the heap of a reference. items: the kinds in a
    tuple.
    """

    name: str
    of: Any = None
    dtype: Any = None
    shape: tuple[Any, ...] = ()
    items: tuple[Kind, ...] = ()

    def fits(self, other: Kind) -> bool:
        plain, others = ((k.name, k.of, k.dtype, len(k.items)) for k in (self, other))
        is_same = plain == others and same_shape(self.shape, other.shape)
        return is_same and all(map(Kind.fits, self.items, other.items))

    def leaves(self) -> Iterator[Kind]:
        if self.name == "tuple":
            for k in self.items:
                yield from k.leaves()
        elif self.name != "constant":
            yield self

    def value(self, arrays: Iterator[Any]) -> Any:
        """Return the value of this kind that consists of these arrays."""
        if self.name == "tuple":
            return tuple(k.value(arrays) for k in self.items)
        if self.name == "constant":
            return self.of
        x = next(arrays)
        if self.name == "reference":
            return self.of.at(x)
        if self.name == "number":
            return number(x, self.of)
        x._scalar = self.name == "scalar"
        return x


def kind_in(x: Any) -> Kind | None:
    """Return the kind of a value, or None if a loop cannot carry it."""
    if type(x) is tuple:
        items = [kind_in(v) for v in x]
        return None if None in items else Kind("tuple", items=tuple(k for k in items if k is not None))
    of = kind_of(x)
    if of is not None:
        return Kind("number", of, np.asarray(of()).dtype)
    if issubclass(type(x), np.generic) and x.dtype.kind in "biuf":
        return Kind("scalar", None, x.dtype)
    if type(x) is TracedArray:
        return Kind("scalar" if x._scalar else "array", None, x.dtype, tuple(x.shape))
    heap = heap_of(x)
    return None if heap is None else Kind("reference", heap, I8)


def arrays_in(x: Any) -> list[Any]:
    """Return the arrays of which a value consists."""
    if type(x) is tuple:
        return [a for v in x for a in arrays_in(v)]
    if heap_of(x) is not None:
        return [index_of(x)]
    of = kind_of(x)
    return [as_dtype_of(x, of) if of is not None else x if type(x) is TracedArray else np.asarray(x)]


class Items:
    """What a `for` iterates over: a number of steps, and the item of a step."""

    def __init__(self, steps: Any, item: Callable[[Any], Any]) -> None:
        self.steps, self.item = steps, item


def evaluate(parts: tuple[Any, ...]) -> Any:
    """Return what the expression of a `for` iterates over: Items, or any other iterable."""
    function, *rest = parts
    if function is None:
        return rest[0]
    args = [evaluate(x) for x in rest]
    is_range = function is range
    if is_range and any(kind_of(x) is None for x in args):
        args = [as_int(x) for x in args]
    if is_range and any(type(x) is PythonNumber for x in args):
        args = [_size(x) if type(x) is Size else x for x in args]
    items = [i for i in map(items_of, args[:1] if function in (enumerate, reversed) else args) if i is not None]
    if is_range and any(type(x) in (PythonNumber, Size) for x in args):
        return _range(args)
    if function is enumerate and items:
        (x,), start = items, (args[1] if len(args) > 1 else 0)
        return Items(x.steps, lambda k: (k + start, x.item(k)))
    if function is reversed and items:
        (x,) = items
        return Items(x.steps, lambda k: x.item(_size(x.steps) - 1 - k))
    is_countable = all(type(x.steps) in (int, Size) for x in items)
    if function is zip and args and len(items) == len(args) and is_countable:
        return Items(extreme("min", *(x.steps for x in items)), lambda k: tuple(x.item(k) for x in items))
    return function(*(iter_of(x) if type(x) is Items else x for x in args))


def is_open(x: Any) -> bool:
    """Return whether a number is a size of the inputs that is open."""
    return type(x) is Size and not depends_on_data(x)


def as_int(x: Any) -> Any:
    """Return an argument of range, or an index of a list, as a Python number, where it is a NumPy integer or a
    size that depends on data.
    """
    if depends_on_data(x):
        return _size(x)
    if type(x) is TracedArray and x._scalar and x.dtype.kind in "iu" and x._const() is None:
        return number(x.astype(np.int64), int)
    return x


def _size(n: Any) -> Any:
    return n if type(n) is int else number(as_array(n, I8), int)


def _range(args: Sequence[Any]) -> Items:
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if type(step) is PythonNumber or not step:
        raise refusal("the step of a range depends on data; use a fixed step")
    distance, width = (stop - start, step) if step > 0 else (start - stop, -step)
    n = distance if width == 1 else (distance + width - 1) // width
    steps = extreme("max", n, 0) if type(n) is Size else np.maximum(as_arrays(n), 0)
    first = _size(start) if type(start) is Size else start
    return Items(steps, lambda k: _place(first, k, step))


def _place(first: int | Array, k: int | Array, step: int) -> int | Array:
    """Return first + k * step with the operators that it needs."""
    k = k if step == 1 else k * step
    return k if type(first) is int and first == 0 else first + k


def iter_of(x: Items) -> Iterator[Any]:
    """Return the items one by one, where their number is fixed."""
    steps = x.steps.fix() if is_open(x.steps) else x.steps
    if type(steps) is not int:
        raise refusal("this iterates a number of times that depends on data; loop over range(...) directly")
    return (x.item(k) for k in range(steps))


def items_of(x: Any) -> Items | None:
    if type(x) is Items:
        return x
    if issubclass(type(x), Selection) and not issubclass(type(x), TracedList):
        return items_of(x.made())
    if type(x) is tracing.sets.TracedSet:
        return items_of(x.items())
    if type(x) is GrownList and x.entries and not x.present:
        return Items(x.everything().shape[0], lambda k: x[k])
    if type(x) is range:
        return Items(len(x), lambda k: _place(x.start, k, x.step))
    if type(x) is TracedArray and x.ndim:
        n = x.shape[0]
        return Items(n, lambda k: x[k])
    if type(x) in (list, tuple) and x:
        kinds = [kind_in(v) for v in x]
        first = kinds[0]
        is_copied = first is not None and all(leaf.name != "array" for leaf in first.leaves())
        if first is not None and is_copied and all(k is not None and first.fits(k) for k in kinds):
            columns = [np.stack(c) for c in zip(*map(arrays_in, x))]
            return Items(len(x), lambda k: first.value(iter([as_traced(c)[k] for c in columns])))
    return None


def item_at(x: Sequence[object], key: Scalar) -> object:
    """Return x[key] for a list or tuple of values of one kind and an integer that depends on data, too."""
    place = as_int(key)
    items = items_of(x) if type(x) in (list, tuple) and type(place) is PythonNumber else None
    return x[key] if items is None or place.kind is float else items.item(number(as_dtype_of(place, int), int))
