"""Layouts: transpositions are put off until an operator needs them, and most meet their inverse before.

Networks of frameworks that lay channels last are traced with a transposition before each convolution and one
behind it. Here a transposed value is a View (see optimize.views): operators that work on any layout work on what
the view is of, with their axes and constants rearranged, and give a view again; where two views meet, the one that
costs least to bring into the other's layout gives way. What needs its elements in place has them put there, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from anylayer.folders import Table, load
from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.optimize.views import View, inverse, permuted, whole

Handler = Callable[["Arranger", Op, "list[View | None]"], "list[View] | None"]
HANDLERS: Table[str, Handler] = Table()


def handles(*ops: str) -> Callable[[Handler], Handler]:
    """Enter what an operator does with views of its inputs (None: absent); it gives its outputs, or None."""

    def enter(handler: Handler) -> Handler:
        HANDLERS.enter(ops, handler)
        return handler

    return enter


def arrange(graph: Graph, *, exact: bool = False) -> Graph:
    """A graph that computes the same with as few transpositions as this finds; the given one stays as it is.

    Sums may add in another order, but not where it is to be `exact`.
    """
    if not any(o.op == "Transpose" for o in graph.ops):
        return graph
    load("optimize", "layout_rules")  # enters the handlers
    return Arranger(graph, exact=exact).run()


class Arranger:
    """The graph that is being made of another one, and the view of it that each of the other's values is."""

    def __init__(self, graph: Graph, *, exact: bool) -> None:
        self.old = graph
        self.exact = exact
        self.graph = Graph(graph.prefix, graph.scope)
        self.graph.notes = list(graph.notes)
        self.graph.limit = graph.limit
        self.graph.inputs = list(graph.inputs)
        self.views: dict[Value, View] = {v: whole(v) for v in graph.inputs if _countable(v)}
        self.values: dict[Value, Value] = {v: v for v in graph.inputs}
        self.placed: dict[Any, Value] = {}

    def run(self) -> Graph:
        for o in self.old.ops:
            views = self._rearranged(o)
            if views is None:
                self._as_it_stands(o)
            else:
                self.views.update((v, view) for v, view in zip(o.outputs, views))
        self.graph.outputs = [self.value(v) for v in self.old.outputs]
        self.graph.drop_dead()
        return self.graph

    def _rearranged(self, o: Op) -> list[View] | None:
        handler = HANDLERS.get(o.op) if not o.domain else None
        if handler is None or not all(_countable(v) for v in [*o.inputs, *o.outputs] if v is not None):
            return None
        views = [None if v is None else self.view(v) for v in o.inputs]
        if o.op not in ("Transpose", "Reshape") and not any(v is not None and v.moves_axes for v in views):
            return None
        return handler(self, o, views)

    def _as_it_stands(self, o: Op) -> None:
        inputs = [None if v is None else self.value(v) for v in o.inputs]
        made = self.graph.append_copy(o, inputs)
        for old, new in zip(o.outputs, made):
            self.values[old] = new
            if _countable(new):
                self.views[old] = whole(new)

    # ------------------------------------------------------------------ values

    def view(self, value: Value) -> View:
        """The view that a value of the old graph is."""
        found = self.views.get(value)
        if found is None:
            found = self.views[value] = whole(self.value(value))
        return found

    def value(self, value: Value) -> Value:
        """A value of the old graph, its elements in place."""
        found = self.values.get(value)
        if found is None:
            if value.const is not None:
                found = self.graph.constant(value.const, trusted=True)
            else:
                found = self.in_place(self.views[value], value.name)
            self.values[value] = found
        return found

    def constant(self, array: Any) -> Value:
        """A constant."""
        return self.graph.constant(array, trusted=True)

    def ints(self, values: Sequence[int]) -> Value:
        """A constant of whole numbers."""
        return self.constant(np.array(list(values), np.int64))

    def emit(
        self,
        like: Op,
        inputs: Sequence[Value | None],
        shapes: Sequence[Sequence[int]],
        op: str = "",
        **attrs: Any,
    ) -> list[Value]:
        """An operator in the place of another, of other shapes; its attributes with those given changed."""
        types = [(s, v.dtype) for s, v in zip(shapes, like.outputs)]
        changed = attrs if op else {**like.attrs, **attrs}
        return self.graph.emit(op or like.op, inputs, types, changed, place=like.place, scope=like.scope)

    # ------------------------------------------------------------- moving data

    def cost(self, view: View) -> int:
        """How many elements have to move to put a view's elements in place."""
        settled = view.in_order or view.base.const is not None or self._key(view) in self.placed
        return 0 if settled else view.size

    def _key(self, view: View) -> Any:
        return view.base, view.coarse()

    def in_place(self, view: View, name: str = "") -> Value:
        """A value whose elements lie as the view has them."""
        base = view.base
        if view.is_base:
            return base
        if base.const is not None:
            return self.constant(_laid_out(base.const, view))
        maker = self.graph.producers.get(base)
        place, scope = (maker.place, maker.scope) if maker is not None else ("", "")

        def move(op: str, x: Value, shape: Sequence[int], wish: str, **attrs: Any) -> Value:
            if x.shape == tuple(shape) and op == "Reshape":
                return x
            inputs = [x] if op == "Transpose" else [x, self.ints(shape)]
            names = [wish] if wish else []
            return self.graph.emit(op, inputs, [(shape, x.dtype)], attrs, place=place, scope=scope, names=names)[0]

        if view.in_order:
            return move("Reshape", base, view.shape, name)
        known = self.placed.get(self._key(view))
        if known is None:
            before, perm = _transposition(view)
            shaped = move("Reshape", base, before, "")
            after = tuple(before[p] for p in perm)
            known = move("Transpose", shaped, after, name if after == view.shape else "", perm=list(perm))
            self.placed[self._key(view)] = known
        return move("Reshape", known, view.shape, name)

    def by_axes(self, view: View) -> View | None:
        """The same view as a transposition, its base reshaped where it has to be; None where that cannot be.

        Of four axes the pieces that make up one are brought together where they lie apart: shuffled channels.
        """
        if view.axes is not None:
            return view
        groups = view.groups()
        for first in (min, max):
            filled = sorted((first(g), i) for i, g in enumerate(groups) if g)
            at = [i for i, g in enumerate(groups) if not g] + [i for _, i in filled]
            order = tuple(i for a in at for i in groups[a])
            base = View(view.base, view.pieces, order, tuple(view.shape[i] for i in at))
            if base.in_order or (len(view.shape) == 4 and at[0] == 0 and at != sorted(at)):
                return permuted(self.in_place(base), inverse(at))
        return None


def _countable(value: Value) -> bool:
    return is_static(value.shape) and 0 not in value.shape


def _laid_out(array: Array, view: View) -> Array:
    return np.ascontiguousarray(array.reshape(view.pieces).transpose(view.order).reshape(view.shape))


def _transposition(view: View) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape, order): the base in this shape, its axes in this order, has its elements as the view."""
    if view.axes is not None:
        return view.base.shape, view.axes
    own = view.base_groups()
    places = {i: at for at, i in enumerate(view.order)}
    if all(places[b] == places[a] + 1 for g in own for a, b in pairwise(g)):  # the base's axes stay whole
        first = [places[g[0]] if g else -1 for g in own]
        return view.base.shape, tuple(sorted(range(len(own)), key=lambda i: (first[i], i)))
    groups = view.groups()
    if all(b == a + 1 for g in groups for a, b in pairwise(g)):  # the view's do
        at = sorted(range(len(groups)), key=lambda i: (groups[i][0] if groups[i] else -1, i))
        return tuple(view.shape[i] for i in at), inverse(at)
    return view.coarse()


def fitted(arranger: Arranger, view: View, to: View) -> View | None:
    """What `view`, an operand that broadcasts to the shape of `to`, is where the other operand is the base of
    `to`: a view that broadcasts to that base's shape; None where it does not."""
    if view.size == 1:
        return view.reshaped((1,) * min(len(view.shape), len(to.base.shape)))
    lead = len(to.shape) - len(view.shape)
    full = [False] * lead + [d == n for d, n in zip(view.shape, to.shape[lead:])]
    groups = to.groups()
    present = {i for g, f in zip(groups, full) if f for i in g}
    spread = view.reshaped([to.pieces[i] if i in present else 1 for i in to.order])
    if spread is None:
        return None
    shape = []
    for d, group in zip(to.base.shape, to.base_groups()):
        kept = [i in present for i in group]
        if any(kept) and not all(kept):
            return None
        shape.append(d if any(kept) else 1)
    return spread.transposed(inverse(to.order)).reshaped(shape)
