"""Find the nodes in which two networks differ: run the second one on the numbers of the first.

Each value of B that equals one of A takes A's numbers, so that every node computes from the same inputs and errors
do not add up. Where B goes its own way, a change that brings it back to A's numbers is searched: other numbers for
an output, an input without nodes of A, or an output without nodes of B. What was changed is the difference.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import groupby

from anylayer.errors import AnyLayerError
from anylayer.graph.operators import UNARY
from anylayer.inspect.correspondence import (
    AxisOrder,
    Index,
    Link,
    Side,
    arrangements,
    best_fit,
    output_error,
    plain_name,
    tells,
    tolerance_of,
)
from anylayer.inspect.diff_details import Difference, details, folded_fault
from anylayer.network import Array
from anylayer.numerics import scale_of

MAX_DIFFERENCES = 20
_AHEAD = 12
"""The number of A's nodes after a point among which a node of B is looked for."""
_REGION = 6
"""The number of B's nodes after the first one without a counterpart that may belong to a difference."""
_APART = 24
"""The number of nodes of B in a row without a number of A after which a run stops: the first of them differs."""
_FOLLOWED = 8
"""The number of B's nodes that are run to find out whether a change brings B back to A's numbers."""
_ALIKE = 2
"""The rank of a change that replaces the result of a node by that of a node with the same operators."""
_EXTRA, _OTHER = 3, 4
"""The ranks of a change that leaves a node out, and of one that replaces it by a node with other operators."""
_RANKS = 4
"""The number of ranks of each node of B; those of inputs are below."""


@dataclass(slots=True)
class _Change:
    """Numbers of A that B is given: for outputs by name, and for inputs by node and name. `a_value` is the value
    of A that comes in. `rank` orders changes that fit equally well."""

    a_value: str
    b_value: str
    rank: int
    outputs: dict[str, Link] = field(default_factory=dict)
    inputs: dict[tuple[int, str], Link] = field(default_factory=dict)


class Comparer:
    """Runs B on the numbers of A. `a.values` are A's; `outputs` maps B's outputs to A's; `links` maps values of
    B to those of A, at first the inputs'. `free` are the outputs that B computes alone."""

    def __init__(
        self,
        a: Side,
        b: Side,
        links: Mapping[str, Link],
        outputs: Mapping[str, str],
        count: Callable[[], None] = lambda: None,
    ) -> None:
        self.a, self.b, self.outputs, self._count = a, b, dict(outputs), count
        self.links: dict[str, Link] = dict(links)
        self.values: dict[str, Array] = {**b.constants}
        self.values.update({name: link.how(a.values[link.name]) for name, link in links.items()})
        self.differences: list[Difference] = []
        self._index = Index(a.values)
        self._forced: dict[str, Link] = {}
        self._inputs: dict[tuple[int, str], Link] = {}
        self._cleared: set[int] = set()
        self._stopped = False
        self.free: dict[str, Array] = {}

    def run(self) -> None:
        """Compare all nodes."""
        self._run(0, free=True)
        self.free = {name: self.free.get(name, self.values[name]) for name in self.outputs}
        seen: set[tuple[int, str]] = set()
        first: int | None = None
        while len(self.differences) < MAX_DIFFERENCES:
            opened = self._first_open()
            first = min([*([] if opened is None else [opened]), *self._large_regions()], default=None)
            if first is None:
                break
            change = self._find_change(first)
            if change is not None:
                self._add(first, change, True)
            elif first != opened:
                self._cleared.add(first)
                continue
            else:
                change = self._guess(first)
            if change is None or (first, change.b_value) in seen:
                break
            seen.add((first, change.b_value))
            self._forced.update(change.outputs)
            self._inputs.update(change.inputs)
            try:
                self._run(first)
            except AnyLayerError:  # the nodes after it do not take values of A's shape
                break
        self._check_ends()

    def agrees(self, output: str) -> bool:
        """Return whether an output of B has the numbers of A's, from the same inputs of its last nodes."""
        want = self.a.values[self.outputs[output]]
        link = self.links.get(output)
        tolerance = tolerance_of([want], len(self.b.between(self.links, output)))
        is_linked = link is not None and link.name == self.outputs[output]
        return is_linked or output_error(want, self.values[output])[0] <= tolerance

    # ------------------------------------------------------------------ one pass

    def _run(self, start: int, *, free: bool = False) -> None:
        """Run B on A's numbers from a node on. free: also compute what B computes alone, and run B to its end."""
        apart = 0
        last = {n: i for i, node in enumerate(self.b.nodes) for n in node.inputs}
        for i in range(start, len(self.b.nodes)):
            node = self.b.nodes[i]
            outputs = results = self.b.compute(node, self._arrays(i, self.values, self._inputs))
            if free and not self.free.keys().isdisjoint(node.inputs):
                results = self.b.compute(node, self._arrays(i, ChainMap(self.free, self.values), {}))
            for name, y, alone in zip(node.outputs, outputs, results):
                if name and name not in self.b.constants:
                    self.links.pop(name, None)
                    link = self._forced.get(name) or self._link(i, name, y, self.links, self._inputs)
                    if link is not None:
                        self.links[name] = link
                        y = self._like(link, y)
                    self.values[name] = y
                    if free and not (
                        alone is outputs[node.outputs.index(name)] and (link is None or not link.error)
                    ):
                        self.free[name] = alone
            for name in node.inputs if free else ():
                if last[name] == i and name not in self.outputs:
                    self.free.pop(name, None)
            self._count()
            if self.b.kinds[i]:
                apart = 0 if not self.links.keys().isdisjoint(node.outputs) else apart + 1
            self._stopped = not free and apart == _APART
            if self._stopped:
                for later in self.b.nodes[i + 1 :]:
                    for name in later.outputs:
                        self.links.pop(name, None)
                return

    def _arrays(
        self, i: int, values: Mapping[str, Array], replaced: Mapping[tuple[int, str], Link]
    ) -> list[Array | None]:
        """Return the inputs of a node of B."""

        def array(name: str) -> Array:
            link = replaced.get((i, name))
            return values[name] if link is None else self._like(link, self.values[name])

        return [array(name) if name else None for name in self.b.nodes[i].inputs]

    def _like(self, link: Link, y: Array) -> Array:
        """Return the numbers of A that a value of B corresponds to, in the dtype that B has for it."""
        return link.how(self.a.values[link.name]).astype(y.dtype, copy=False)

    def _link(
        self,
        i: int,
        name: str,
        y: Array,
        links: Mapping[str, Link],
        replaced: Mapping[tuple[int, str], Link],
        allowed: set[str] | None = None,
    ) -> Link | None:
        """Return the value of A that equals a value of B: one of `allowed`, if that is given."""
        near = self._index.near(y)
        if allowed is not None:
            near = [n for n in near if n in allowed]
        if not near:
            return None
        region = self.b.between(links, name)
        start = self._start(region, links, replaced)
        ahead = {n for k in self.a.after(start, _AHEAD) for n in self.a.nodes[k].outputs} | set(start)
        output, kinds = self.outputs.get(name), self.b.kinds[i]
        if not tells(y):
            near = [
                n for n in near if n == output or (len(region) == 1 and n in ahead and self._kinds(n) == kinds)
            ]
        read = [self.values[n] for k in region for n in self.b.data_inputs(self.b.nodes[k]) if n in self.values]
        place = {n: k for k, n in enumerate(self.a.values)}

        def order(n: str) -> tuple[bool, bool, bool, bool, int]:
            return n != output, not self._same_name(n, name, i), self._kinds(n) != kinds, n not in ahead, place[n]

        for n in sorted(near, key=order):
            x = self.a.values[n]
            nodes = max(len(region), 0 if n in start else len(self.a.between(start, n)))
            scale = min(1.0, scale_of(*(self.a.values[s] for s in start))) if start else 0.0
            fit = best_fit(x, y, scale, tolerance_of([x, y, *read], nodes))
            if fit is not None:
                return Link(n, *fit)
        return None

    def _start(
        self, region: list[int], links: Mapping[str, Link], replaced: Mapping[tuple[int, str], Link]
    ) -> list[str]:
        """Return the values of A from which a region of B's nodes computes."""
        values: dict[str, None] = {}
        for k in region:
            for name in self.b.data_inputs(self.b.nodes[k]):
                link = replaced.get((k, name)) or links.get(name)
                if link is not None:
                    values[link.name] = None
        return list(values)

    def _kinds(self, value: str) -> tuple[str, ...]:
        i = self.a.producers.get(value)
        return () if i is None else self.a.kinds[i]

    def _same_name(self, a: str, b: str, i: int) -> bool:
        k = self.a.producers.get(a)
        names = {plain_name(a)} | ({self.a.nodes[k].name} if k is not None else set())
        return not names.isdisjoint((plain_name(b), self.b.nodes[i].name))

    # ------------------------------------------------------------------ differences

    def _first_open(self) -> int | None:
        """Return the first node of B that an output depends on through values that A does not have."""
        seen: set[int] = set()
        left = [
            name for name in self.outputs if name not in self.links and (self._stopped or not self.agrees(name))
        ]
        while left:
            i = self.b.producers.get(left.pop())
            if i is not None and i not in seen:
                seen.add(i)
                inputs = self.b.data_inputs(self.b.nodes[i])
                left += [n for n in inputs if n not in self.links and (i, n) not in self._inputs]
        return min(seen, default=None)

    def _large_regions(self) -> Iterator[int]:
        """Yield the first nodes of regions of several nodes in A and in B with equal results at their ends.

        What is folded is one node at least on one side. In other regions, a saturated result may hide a
        difference.
        """
        for name in [*self.links, *(n for n in self.outputs if n not in self.links)]:
            region = self.b.between(self.links, name)
            if sum(1 for i in region if self.b.kinds[i]) < 2 or region[0] in self._cleared:
                continue
            end = self.links[name].name if name in self.links else self.outputs[name]
            nodes = self.a.between(self._start(region, self.links, self._inputs), end)
            if sum(1 for k in nodes if self.a.kinds[k]) > 1:
                yield region[0]

    def _find_change(self, first: int) -> _Change | None:
        """Return the simplest change that brings B back to A's numbers, None where there is none.

        The nodes after the change decide: more of them compute A's numbers than not. If no change of a node is
        that good, because the next node differs, too, one after which at least as many do suffices: the first one
        in A's order. Among several arrangements of a value, that with the most such nodes is taken.
        """
        by_rank = sorted(self._changes(first), key=lambda c: c.rank)
        for _, of_node in groupby(by_rank, key=lambda c: max(0, c.rank - _ALIKE) // _RANKS):
            second: _Change | None = None
            for _, group in groupby(of_node, key=lambda c: (c.rank, c.a_value, c.b_value)):
                scored = [(self._follow(first, change), change) for change in group]
                (hits, misses), change = max(scored, key=lambda pair: pair[0][0] - pair[0][1])
                if hits > misses:
                    return change
                replaces = bool(change.outputs) and change.rank % _RANKS != _EXTRA
                if second is None and replaces and hits and (hits >= misses or change.rank == _ALIKE):
                    second = change
            if second is not None:
                return second
        return None

    def _changes(self, first: int) -> Iterator[_Change]:
        """Yield changes at the first node without a counterpart."""
        a, b, node = self.a, self.b, self.b.nodes[first]
        links = {n: self._inputs.get((first, n)) or self.links.get(n) for n in b.data_inputs(node)}
        inputs = {n: link for n, link in links.items() if link is not None}
        for name, link in inputs.items():
            for k in a.after([link.name], _AHEAD):
                for value in a.nodes[k].outputs:
                    for how in self._orders(value, self.values[name], link):
                        if how.shape != self.values[name].shape:
                            continue
                        later = [i for i in b.consumers[name] if i >= first]
                        for rank, of in enumerate([later, [first]] if len(later) > 1 else [later]):
                            yield _Change(value, name, rank, inputs={(i, name): Link(value, how) for i in of})
        start = [link.name for link in inputs.values()] or list(a.network.inputs)
        usual = next(iter(inputs.values()), None)
        candidates = [v for k in a.after(start, _AHEAD) for v in a.nodes[k].outputs if v in a.values]
        for depth, i in enumerate([first, *(k for k in b.after(node.outputs, _REGION))]):
            for name in b.nodes[i].outputs:
                if name not in self.values or name in b.constants or name in self.links:
                    continue
                alike = [v for v in candidates if self._kinds(v) == b.kinds[i]]
                for value in [*alike, *(v for v in candidates if v not in alike)]:
                    for how in self._orders(value, self.values[name], usual):
                        rank = _RANKS * depth + (_ALIKE if value in alike else _OTHER)
                        yield _Change(value, name, rank, outputs={name: Link(value, how)})
                for link in inputs.values():
                    for how in self._orders(link.name, self.values[name], link):
                        yield _Change(
                            link.name, name, _RANKS * depth + _EXTRA, outputs={name: Link(link.name, how)}
                        )

    def _orders(self, value: str, y: Array, usual: Link | None) -> Iterator[AxisOrder]:
        """Yield how a value of A may be arranged to stand for y. One of another shape gets the inputs' layout."""
        x = self.a.values.get(value)
        if x is None or x.dtype.kind != y.dtype.kind:
            return
        axes = usual.how.axes if usual is not None and len(usual.how.axes) == x.ndim == y.ndim else ()
        fits = [how for how in arrangements(x.shape, y.shape) if how.is_layout]
        if not fits and x.size == y.size and (fit := best_fit(x, y)) is not None:
            fits = [fit[0]]
        if not fits and axes:
            fits = [AxisOrder(axes, tuple(x.shape[axis] for axis in axes))]
        yield from sorted(fits, key=lambda how: how.axes != axes)

    def _follow(self, first: int, change: _Change) -> tuple[int, int]:
        """Return how many of the next nodes of B compute numbers of A after a change, and how many do not,
        although their inputs are A's."""
        hits = misses = run = 0
        values = ChainMap({n: self._like(link, self.values[n]) for n, link in change.outputs.items()}, self.values)
        links = {**self.links, **change.outputs}
        replaced = ChainMap(change.inputs, self._inputs)
        changed = set(change.outputs)
        allowed = {v for k in self.a.after([change.a_value], len(self.a.nodes)) for v in self.a.nodes[k].outputs}
        if any(self.outputs.get(n) == change.a_value for n in change.outputs):
            hits += 1
        for i in range(first, len(self.b.nodes)):
            node = self.b.nodes[i]
            is_given = any(k == i for k, _ in change.inputs)
            if not (is_given or changed.intersection(node.inputs)) or change.outputs.keys() & node.outputs:
                continue
            try:
                results = self.b.compute(node, self._arrays(i, values, replaced))
            except (AnyLayerError, ValueError):
                return 0, 1
            hit, miss = False, all(n in links or (i, n) in replaced for n in self.b.data_inputs(node))
            for name, y in zip(node.outputs, results):
                links.pop(name, None)
                link = self._link(i, name, y, links, replaced, allowed)
                hit |= link is not None and tells(y)
                if link is not None:
                    links[name], y, miss = link, self._like(link, y), False
                values[name] = y
                changed.add(name)
            if self.b.kinds[i]:
                hits, misses, run = hits + hit, misses + miss, run + 1
            if run >= _FOLLOWED or (misses and not hits):
                break
        return hits, misses

    def _add(self, first: int, change: _Change, rejoins: bool) -> None:
        """Add the difference that a change is."""
        a, b, name, value = self.a, self.b, change.b_value, change.a_value
        link = next(iter((change.inputs or change.outputs).values()))
        if change.inputs:
            start = [self.links[name].name] if name in self.links else []
            moves = value not in start and not any(a.kinds[k] for k in a.between(start, value))
            region = self._rearranging(name) if moves else []
        else:
            region = b.between(self.links, name)
            start = self._start(region, self.links, self._inputs)
        nodes = [] if value in start else a.between(start, value)
        whole = Difference(nodes, region, value, name, link.how(a.values[value]), self.values[name], rejoins)
        before = [(d.a_nodes, d.b_nodes) for d in self.differences]
        parts = self._parts(whole, link, change.outputs) or [whole]
        self.differences += [d for d in parts if (d.a_nodes, d.b_nodes) not in before]

    def _parts(self, whole: Difference, link: Link, outputs: dict[str, Link]) -> list[Difference]:
        """Return the nodes of a difference that differ alone, and add what corresponds between them to `outputs`.

        Return [] where one node of a side computes what several of the other do.
        """
        a, b, parts = self.a, self.b, []
        sides = [[i for i in nodes if s.kinds[i]] for s, nodes in ((a, whole.a_nodes), (b, whole.b_nodes))]
        kinds = [[s.kinds[i] for i in nodes] for s, nodes in zip((a, b), sides)]
        if not all(sides) or len(sides[0]) + len(sides[1]) == 2:
            return []
        traced = [[s.tracings[i] for i in nodes] for s, nodes in zip((a, b), sides)]
        if kinds[0] != kinds[1] and (fault := folded_fault(*traced)):
            mine = whole.a_nodes if fault[0] is None else [sides[0][fault[0]]]
            other = whole.b_nodes if fault[1] is None else [sides[1][fault[1]]]
            return [replace(whole, a_nodes=mine, b_nodes=other, details=fault[2] or details(*traced))]
        links: dict[str, Link] = {}
        for tag, *ends in SequenceMatcher(None, kinds[0], kinds[1], autojunk=False).get_opcodes():
            mine, other = sides[0][ends[0] : ends[1]], sides[1][ends[2] : ends[3]]
            if tag != "equal":
                alone = [(a, k, kind) for k, kind in zip(mine, kinds[0][ends[0] :])]
                alone += [(b, i, kind) for i, kind in zip(other, kinds[1][ends[2] :])]
                if (mine and other) or not all(op in UNARY.names for *_, kind in alone for op in kind):
                    return []
                for k in mine:
                    value, before = a.nodes[k].outputs[0], a.data_inputs(a.nodes[k])[0]
                    x, y = a.values[value], a.values[before]
                    parts.append(Difference([k], [], value, whole.b_value, x, y, whole.rejoins))
                for i in other:
                    value, before = b.nodes[i].outputs[0], b.data_inputs(b.nodes[i])[0]
                    x, y = self.values[before], self.values[value]
                    parts.append(Difference([], [i], whole.a_value, value, x, y, whole.rejoins))
            for k, i in zip(mine, other):
                part = self._part(k, i, link, links)
                if part is None:
                    return []
                parts += [part] if part.error > part.scale * tolerance_of([part.a_array, part.b_array], 1) else []
        outputs.update({name: one for name, one in links.items() if name != whole.b_value})
        return parts

    def _part(self, k: int, i: int, link: Link, links: dict[str, Link]) -> Difference | None:
        """Run a node of B on the inputs of a node of A. Return what both compute, and add its link to `links`."""
        a, b = self.a.nodes[k], self.b.nodes[i]
        inputs = self.a.data_inputs(a), self.b.data_inputs(b)
        orders = [next(self._orders(x, self.values[y], link), None) for x, y in zip(*inputs)]
        if len(inputs[0]) != len(inputs[1]) or None in orders:
            return None
        replaced = {(i, y): Link(x, how) for x, y, how in zip(*inputs, orders) if how is not None}
        try:
            y = self.b.compute(b, self._arrays(i, self.values, replaced))[0]
        except AnyLayerError:
            return None
        how = next(self._orders(a.outputs[0], y, link), None)
        if how is None:
            return None
        links[b.outputs[0]] = Link(a.outputs[0], how)
        return Difference([k], [i], a.outputs[0], b.outputs[0], how(self.a.values[a.outputs[0]]), y)

    def _rearranging(self, name: str) -> list[int]:
        """Return the nodes of B that only rearranged elements to compute a value."""
        nodes = []
        while (i := self.b.producers.get(name)) is not None and not self.b.kinds[i]:
            nodes.append(i)
            name = self.b.data_inputs(self.b.nodes[i])[0]
        return nodes[::-1]

    def _guess(self, first: int) -> _Change | None:
        """Add the difference at a node after which nothing agrees. Return the change if the node has the name
        and the operators of its counterpart, so that what follows can be compared."""
        guesses = [c for c in self._changes(first) if c.outputs and c.b_value in self.b.nodes[first].outputs]
        ends = [
            _Change(a_value, name, 0, outputs={name: Link(a_value, how)})
            for name, a_value in self.outputs.items()
            if (how := next(arrangements(self.a.values[a_value].shape, self.values[name].shape), None)) is not None
        ]
        named = [c for c in guesses if c.rank == _ALIKE and self._same_name(c.a_value, c.b_value, first)]
        chosen = min(named or guesses or ends, key=lambda c: c.rank, default=None)
        if chosen is not None:
            self._add(first, chosen, False)
        return chosen if named else None

    def _check_ends(self) -> None:
        """Add the differences of outputs that have the numbers of another value of A than their own."""
        for name, value in self.outputs.items():
            link, want = self.links.get(name), self.a.values[value]
            if link is None or self.agrees(name):
                continue
            how = next((h for h in arrangements(want.shape, self.values[name].shape) if h.is_layout), None)
            nodes = self.a.between([link.name], value)
            back = [] if nodes else self.b.between([n for n, v in self.links.items() if v.name == value], name)
            actual = self.values[name]
            self.differences.append(Difference(nodes, back, value, name, how(want) if how else want, actual))
