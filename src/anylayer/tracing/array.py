"""TracedArray: an array with a shape and a dtype but no values, which implements NumPy's protocols.

The rules that record NumPy's functions are registered in dispatch.FUNCTIONS and dispatch.UFUNCS. A rule receives
each array as a NumPy array if it is a constant (known before the network runs), else as a TracedArray.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from anylayer import tracing
from anylayer.graph.guards import unguarded
from anylayer.graph.ir import Graph, Value
from anylayer.graph.place import describe, may_decide_by_text, refusal
from anylayer.graph.sizes import is_static, size_of, stand_for
from anylayer.graph.symbolic import is_symbolic, plain
from anylayer.network import Array, DType, Function
from anylayer.tracing import rules

TracingRule = Function
UNKNOWN_SIZE = "a size is known only when the network runs; pad it with anylayer.ops.pad_to_maximum first"


@dataclass(slots=True)
class ArrayView:
    """How a traced array is a view of the array `parent`.

    `replay(parent)` returns the content of the view. `write(parent, new)` returns the content of the parent after
    the view has been overwritten with `new`; `write` is None if the view is read-only in NumPy. Both also accept
    NumPy arrays. If `certain` is false, NumPy may return a copy instead, depending on the memory layout of the
    parent (reshape). `seen` is the version of the base for which the content of the view is up to date. `key` is
    the index that created the view.
    """

    parent: TracedArray
    replay: Callable[[Array], Array]
    write: Callable[[Array, Array], Array] | None
    certain: bool = True
    seen: int = 0
    key: Any = None


if TYPE_CHECKING:
    _Base = np.ndarray[Any, Any]
else:
    _Base = object
"""A traced array is an ndarray for type checkers, as it is for isinstance at run time (see __class__)."""


_BE_STEPS = (
    "be the number of steps of this loop, unless its steps only compute numbers and arrays of fixed sizes; to "
    "select in each step, write `for c in range(20): mask = labels == c` for `for c in np.unique(labels)`, or NMS "
    "of all classes at once: nms(boxes + labels[:, None] * 10000, scores)"
)


class TracedArray(_Base):
    """A value of the graph under construction, in the place of an ndarray.

    Its content is a Value of the graph, or a NumPy array if it is a constant. A write replaces the content of the
    base of which the array is a view, and increments the version of the base. A view with an older version is
    computed again when it is read.
    """

    __slots__ = ("__weakref__", "_content", "_graph", "_memory_layout", "_owner", "_scalar", "_version", "_view")
    __hash__ = None

    def __init__(self, graph: Graph, content: Value | Array, *, view: ArrayView | None = None) -> None:
        self._graph = graph
        self._content = content
        self._view = view
        self._version = 0
        self._memory_layout: Callable[[], Array] | None = None
        self._scalar = False
        self._owner = ""

    # ------------------------------------------------------------------ content

    def _base(self) -> TracedArray:
        base = self
        while base._view is not None:
            base = base._view.parent
        return base

    def _up_to_date(self) -> Value | Array:
        """Return the content. That of a view is computed again if its base was overwritten after the last call."""
        view = self._view
        if view is not None and view.seen != self._base()._version:
            self._decide_view()
            if self._view is not None:
                self._content = view.replay(view.parent._resolved())
                if isinstance(self._content, TracedArray):
                    self._content = self._content._up_to_date()
                view.seen = self._base()._version
        return self._content

    @property
    def _value(self) -> Value:
        """The value of the graph that holds the array's current content."""
        content = self._up_to_date()
        return content if isinstance(content, Value) else self._graph.constant(content)

    def _const(self) -> Array | None:
        """Return the content if it is a constant, else None."""
        content = self._up_to_date()
        return content.const if isinstance(content, Value) else content

    def _resolved(self) -> Array:
        """Return the content for a rule: a NumPy array if it is a constant, else a TracedArray that is not a
        view.
        """
        const = self._const()
        return TracedArray(self._graph, self._up_to_date()) if const is None else const

    def _assign(self, new: Array) -> None:
        """Overwrite the array, and the array of which it is a view, with `new` of the same shape and dtype."""
        self._decide_view()
        content = new._up_to_date() if isinstance(new, TracedArray) else new
        self._graph = new._graph if isinstance(new, TracedArray) else self._graph
        view = self._view
        if view is None:
            tracing.decisions.note_write(self)
            if self._owner:
                self._note_write()
            self._content = content
            self._version += 1
            return
        if view.write is None:
            raise ValueError("assignment destination is read-only")
        view.parent._assign(view.write(view.parent._resolved(), new))
        self._content = content
        view.seen = self._base()._version

    def _note_write(self) -> None:
        if not self._owner.startswith("input"):
            raise refusal(
                f"{self._owner} is written to, but state that is kept between two calls cannot be recorded; "
                "write to a .copy() of it"
            )
        self._graph.note(
            f"{self._owner} is written to; in NumPy, that changes the blob for every layer that reads it: "
            "write to a .copy() of it"
        )

    @property
    def _is_moved(self) -> bool:
        """Whether the elements may lie in another order than C order in memory: see _dummy."""
        return self._view is not None or self._memory_layout is not None

    def _dummy(self) -> Array:
        """Return a NumPy array with the shape, dtype and memory layout that this array has in NumPy."""
        if self._memory_layout is not None:
            return self._memory_layout()
        if self._view is not None:
            with unguarded():
                return np.asarray(self._view.replay(self._view.parent._dummy()))
        return np.zeros(plain(stand_for(self.shape)), self.dtype)

    def _decide_view(self) -> None:
        """Decide whether an uncertain view is a view or a copy. A copy becomes an array of its own."""
        view = self._view
        if view is None or view.certain:
            return
        view.certain = True
        parent = view.parent._dummy()
        mine = np.asarray(view.replay(parent))
        if not np.may_share_memory(parent, mine):
            self._view, self._version = None, view.seen

    # --------------------------------------------------------------- attributes

    @property
    def shape(self) -> tuple[Any, ...]:
        return self._content.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        raise refusal("x.shape = ... cannot be recorded; write x = x.reshape(...)")

    @property
    def dtype(self) -> DType:
        return self._content.dtype

    @property
    def ndim(self) -> int:
        return len(self._content.shape)

    @property
    def size(self) -> int:
        return size_of(self.shape)

    @property
    def flat(self) -> Any:
        return rules.attributes.Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[:] = value

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property  # isinstance(x, np.ndarray) must be true
    def __class__(self) -> type:
        return self._content.dtype.type if self._scalar else np.ndarray

    @__class__.setter
    def __class__(self, cls: type) -> None:
        raise TypeError("the __class__ of a traced array cannot be set")

    def __repr__(self) -> str:
        if self._graph.strict and self._const() is None and may_decide_by_text(sys._getframe(1)):
            raise tracing.causes.text_refusal(self)
        return f"traced {describe(self)}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        if self._graph.strict and self._const() is None:
            raise tracing.causes.text_refusal(self)
        return repr(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0].__index__())

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        n = self.shape[0]
        return (self[i] for i in range(n.fix(_BE_STEPS) if is_symbolic(n) else len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return iter(self[::-1])

    # ---------------------------------------------------------------- protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(issubclass(type(x), Composite) for x in (*inputs, *kwargs.get("out", ()))):
            return NotImplemented
        return tracing.dispatch.call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: TracingRule, types: Any, args: Any, kwargs: Any) -> Any:
        if any(issubclass(t, Composite) for t in types):
            return NotImplemented
        return tracing.dispatch.call_function(func, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        return rules.indexing.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        rules.writing.setitem(self, key, value)

    def __getattr__(self, name: str) -> Any:
        rule = None if name.startswith("_") else rules.attributes.ATTRIBUTES.get(name)
        if rule is not None:
            return rule(self)
        if not name.startswith("_") and hasattr(np.ndarray, name):
            raise refusal(f"ndarray.{name} cannot be recorded; use NumPy functions, operators and indexing")
        raise AttributeError(f"'numpy.ndarray' object has no attribute '{name}'")

    # ----------------------------------------------- operations that need values

    def _values(self, refuse: Callable[[TracedArray], Exception]) -> Array:
        """Return the content, which must be a constant. `refuse` returns the error for other content."""
        const = self._const()
        if const is None:
            raise refuse(self)
        return const

    def _values_for(self, what: str, remedy: str) -> Array:
        """Return the content, which must be a constant. Otherwise the error says that `what` needs the values."""
        rule = f"{what} needs the values of a traced array"
        when = f"which are known only when the network runs; {remedy}"
        return self._values(lambda x: refusal(f"{rule} ({describe(x)}), {when}"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # type: ignore[override]  # NumPy's has overloads
        const = self._values(tracing.causes.array_refusal)
        if self.ndim:
            self._base()._owner = self._base()._owner or "an array that was converted to a NumPy array"
        result = const.astype(dtype) if dtype is not None else const.copy()
        result.flags.writeable = False
        return result

    def __bool__(self) -> bool:
        return tracing.decisions.truth(self)

    def __float__(self) -> float:
        return float(self._values(tracing.causes.float_refusal))

    def __int__(self) -> int:
        return int(self._values(tracing.causes.index_refusal))

    def __index__(self) -> int:
        if self.ndim:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return self._values(tracing.causes.index_refusal).__index__()

    def __complex__(self) -> complex:
        return complex(self._values_for("complex()", "keep the array"))

    def __contains__(self, item: Any) -> bool:
        const = self._const()
        return item in const if const is not None else bool((self == item).any())

    def item(self, *args: Any) -> Any:
        const = self._const()
        return (
            const.item(*args)
            if const is not None
            else tracing.python_numbers.item(self.flat[args] if len(args) == 1 else self[args] if args else self)
        )

    def tolist(self) -> Any:
        const = self._const()
        if const is not None:
            return const.tolist()
        return tracing.number_lists.list_of(self) if self.ndim else tracing.python_numbers.item(self)

    def __round__(self, digits: Any = None) -> Any:
        if not self._scalar or self.dtype == np.bool_:
            raise TypeError(f"type {type(self).__name__} doesn't define __round__ method")
        rounded = np.round(self, digits or 0)
        return rounded if digits is not None else tracing.python_numbers.to_int(rounded)

    def __floor__(self) -> Any:
        return math.floor(tracing.python_numbers.to_float(self))

    def __ceil__(self) -> Any:
        return math.ceil(tracing.python_numbers.to_float(self))

    def tobytes(self, *args: Any) -> bytes:
        return self._values_for(".tobytes()", "keep the array").tobytes(*args)

    def __reduce__(self) -> NoReturn:
        raise refusal("a traced array cannot be pickled; it has no values until the network runs")

    def __copy__(self) -> TracedArray:
        return copy_of(self)

    def __deepcopy__(self, memo: Any) -> TracedArray:
        return copy_of(self)


class Composite:
    """An array that is recorded as several traced arrays. Functions of it and of traced arrays are its own."""

    __slots__ = ()


class Selection:
    """A selection of the elements of an array whose number depends on data, before it is made."""

    __slots__ = ()

    def made(self) -> Any:
        """Return the selected elements as an array whose size depends on data."""
        raise NotImplementedError


def selected(x: Any) -> Any:
    """Return an argument with each Selection in it made."""
    if issubclass(type(x), Selection):
        return x.made()
    if type(x) in (tuple, list):
        return type(x)(map(selected, x))
    return {key: selected(v) for key, v in x.items()} if type(x) is dict else x


def is_traced(x: object) -> bool:
    """Return whether `x` is a traced array."""
    return type(x) is TracedArray


def copy_of(x: TracedArray) -> TracedArray:
    """Return a new array, not a view, with the content of `x`."""
    return TracedArray(x._graph, x._up_to_date())


def restore(writes: dict[int, tuple[TracedArray, Value | Array]]) -> None:
    """Undo writes to arrays: see decisions.Writes."""
    for x, content in writes.values():
        x._content, x._version = content, x._version + 1


def wrapped(graph: Graph, x: Any) -> Any:
    """Return the result of a rule as the user receives it, also inside tuples and lists.

    A NumPy array becomes a TracedArray. A view that the rule created becomes an array of its own.
    """
    if type(x) is TracedArray:
        return x if x._view is None else copy_of(x)
    if isinstance(x, (np.ndarray, np.generic)):
        result = TracedArray(graph, np.asarray(x))
        result._scalar = isinstance(x, np.generic)
        return result
    if type(x) in (tuple, list):
        return type(x)(wrapped(graph, v) for v in x)
    return x


def view_of(
    parent: TracedArray,
    replay: Callable[[Array], Array],
    write: Callable[[Array, Array], Array] | None,
    *,
    certain: bool = True,
    content: Array | None = None,
) -> TracedArray:
    """Return a traced array that is a view of `parent`; see ArrayView.

    `content` is the content of the view, if the caller has already computed it.
    """
    now = replay(parent._resolved()) if content is None else content
    view = ArrayView(parent, replay, write, certain, parent._base()._version)
    return TracedArray(
        parent._graph, now._up_to_date() if isinstance(now, TracedArray) else np.asarray(now), view=view
    )


def require_static(x: Array, what: str) -> None:
    """Raise TraceError if a size of `x` depends on data. `what` names the operation in the message."""
    if not is_static(x.shape):
        raise refusal(f"{what} of {describe(x)} cannot be recorded, because {UNKNOWN_SIZE}")
