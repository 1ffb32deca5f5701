"""Layout propagation: Transposes sink through operators until they meet their inverse, or an operator needs them.

A network of a channels-last framework is traced with a Transpose before each convolution and another one after
it. Here a transposed value becomes a View (see optimize.views). An operator that works on any layout is applied to
the base of its input's view, with its axes and constants permuted, and its output is a view again. Where operands
with different layouts meet, the operands that are cheapest to move are moved. A view is materialized by a
Transpose where an operator needs its elements in order, once for all such operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anylayer.graph.arrangement import inverse
from anylayer.graph.facts import producer
from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.sizes import is_static
from anylayer.optimize.new_graph import NewGraph
from anylayer.optimize.order import load_rules
from anylayer.optimize.rules import RULES, chooser
from anylayer.optimize.views import View, identity_view, transposed_view


def propagate_layouts(graph: Graph, *, exact: bool = False) -> Graph:
    """Return an equal graph with fewer Transposes. The given graph is not changed.

    A rule of the stage "layout" applies an operator to the views of its inputs, which are `operands` (None for an
    absent one). It returns the views of the outputs, or None where the operator needs its inputs materialized.

    exact: omit rules that change the order of summation.
    """
    if not any(o.op == "Transpose" for o in graph.ops):
        return graph
    load_rules("optimize", graph)
    return LayoutPropagation(graph, exact=exact).run()


class LayoutPropagation(NewGraph):
    """A graph under construction in which Transposes sink.

    `views` maps values of the old graph to views of values of the new graph, `values` to materialized values.
    `operands` are the views of the inputs of the operator that a rule gets.
    """

    def __init__(self, graph: Graph, *, exact: bool) -> None:
        super().__init__(graph)
        self.rules = chooser([r for r in RULES if r.stage == "layout"])
        self.operands: list[View | None] = []
        self.old = graph
        self.exact = exact
        self.views: dict[Value, View] = {v: identity_view(v) for v in graph.inputs if _can_be_viewed(v)}
        self.materialized: dict[Any, Value] = {}

    def run(self) -> Graph:
        """Return the new graph."""
        for o in self.old.ops:
            views = self._output_views(o)
            if views is None:
                self._copy(o)
            else:
                self.views.update(zip(o.outputs, views))
        self.graph.outputs = [self.value(v) for v in self.old.outputs]
        self.graph.drop_dead()
        return self.graph

    def _output_views(self, o: Op) -> list[View] | None:
        rules = self.rules(o)
        if not rules or not all(_can_be_viewed(v) for v in [*o.inputs, *o.outputs] if v is not None):
            return None
        views = self.operands = [None if v is None else self.view(v) for v in o.inputs]
        if o.op not in ("Transpose", "Reshape") and not any(v is not None and v.moves_axes for v in views):
            return None
        return rules[0].apply(self, o)

    def _copy(self, o: Op) -> None:
        inputs = [None if v is None else self.value(v) for v in o.inputs]
        for old, new in zip(o.outputs, self.graph.append_copy(o, inputs)):
            self.values[old] = new
            if _can_be_viewed(new):
                self.views[old] = identity_view(new)

    # ------------------------------------------------------------------ values

    def view(self, value: Value) -> View:
        """Return the view for a value of the old graph."""
        view = self.views.get(value)
        if view is None:
            view = self.views[value] = identity_view(self.value(value))
        return view

    def value(self, value: Value) -> Value:
        """Return the materialized value for a value of the old graph."""
        new_value = self.values.get(value)
        if new_value is None:
            if value.const is not None:
                new_value = self.graph.constant(value.const, trusted=True)
            else:
                new_value = self.materialize(self.views[value], value.name)
            self.values[value] = new_value
        return new_value

    def emit(
        self, o: Op, inputs: Sequence[Value | None], shapes: Sequence[Sequence[int]], op: str = "", **attrs: Any
    ) -> list[Value]:
        """Append an operator that replaces `o` and return its outputs, which have these shapes.

        op: the type of the new operator, with the attributes `attrs`. If it is "", the new operator is `o` with
        these attributes changed.
        """
        types = [(s, v.dtype) for s, v in zip(shapes, o.outputs)]
        changed = attrs if op else {**o.attrs, **attrs}
        return self.graph.emit(op or o.op, inputs, types, changed, place=o.place, scope=o.scope)

    # ------------------------------------------------------------- moving data

    def cost(self, view: View) -> int:
        """Return the number of elements that move when a view is materialized."""
        free = view.keeps_order or view.base.const is not None or self._key(view) in self.materialized
        return 0 if free else view.size

    def _key(self, view: View) -> Any:
        return view.base, view.canonical()

    def materialize(self, view: View, name: str = "") -> Value:
        """Return a value with the elements of a view in their order, named `name` if that is free."""
        base = view.base
        if view.is_identity:
            return base
        if base.const is not None:
            return self.constant(np.ascontiguousarray(view.apply(base.const)))
        origin = producer(self.graph.producers, base)
        place, scope = (origin.place, origin.scope) if origin is not None else ("", "")

        def move(op: str, x: Value, shape: Sequence[int], wish: str, **attrs: Any) -> Value:
            if x.shape == tuple(shape) and op == "Reshape":
                return x
            inputs = [x] if op == "Transpose" else [x, self.ints(shape)]
            names = [wish] if wish else []
            return self.graph.emit(op, inputs, [(shape, x.dtype)], attrs, place=place, scope=scope, names=names)[0]

        if view.keeps_order:
            return move("Reshape", base, view.shape, name)
        transposed = self.materialized.get(self._key(view))
        if transposed is None:
            before, perm = view.moves()
            shaped = move("Reshape", base, before, "")
            after = tuple(before[p] for p in perm)
            transposed = move("Transpose", shaped, after, name if after == view.shape else "", perm=list(perm))
            self.materialized[self._key(view)] = transposed
        return move("Reshape", transposed, view.shape, name)

    def as_transposition(self, view: View) -> View | None:
        """Return an equal view that is a transposition. Its base is the old base, reshaped if necessary.

        For a view with four axes, such as shuffled channels, the base may also be materialized so that the pieces
        of each axis (see graph.arrangement) are adjacent. Returns None if neither is possible.
        """
        if view.axes is not None:
            return view
        groups = view.groups()
        for first in (min, max):
            filled = sorted((first(g), i) for i, g in enumerate(groups) if g)
            at = [i for i, g in enumerate(groups) if not g] + [i for _, i in filled]
            permutation = tuple(i for a in at for i in groups[a])
            base = replace(view, permutation=permutation, shape=tuple(view.shape[i] for i in at))
            if base.keeps_order or (len(view.shape) == 4 and at[0] == 0 and at != sorted(at)):
                return transposed_view(self.materialize(base), inverse(at))
        return None


def _can_be_viewed(value: Value) -> bool:
    return is_static(value.shape) and 0 not in value.shape


def broadcast_view(view: View, to: View) -> View | None:
    """Return an operand that broadcasts to the shape of `to` as a view that broadcasts to the base of `to`.

    Returns None where an axis of the base is only partly covered by the operand.
    """
    if view.size == 1:
        return view.reshaped((1,) * min(len(view.shape), len(to.base.shape)))
    lead = len(to.shape) - len(view.shape)
    full = [False] * lead + [d == n for d, n in zip(view.shape, to.shape[lead:])]
    groups = to.groups()
    present = {i for g, f in zip(groups, full) if f for i in g}
    split = view.reshaped([to.pieces[i] if i in present else 1 for i in to.permutation])
    if split is None:
        return None
    shape = []
    for d, group in zip(to.base.shape, to.source_groups()):
        presence = [i in present for i in group]
        if any(presence) and not all(presence):
            return None
        shape.append(d if any(presence) else 1)
    return split.transposed(inverse(to.permutation)).reshaped(shape)
