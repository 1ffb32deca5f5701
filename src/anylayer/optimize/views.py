"""Views: the elements of a computed value in another order, before any operator puts them there.

A view cuts the axes of its base into pieces (none of size 1), puts the pieces into an order, and joins them to the
axes of its shape. Transpositions and reshapes of a view are views, as long as the cuts divide each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from anylayer.graph.ir import Value

Shape = tuple[int, ...]
Groups = list[list[int]]


@dataclass(frozen=True, slots=True)
class View:
    """Of `base`, cut into `pieces` (their sizes, in the base's order): the pieces in `order`, joined to `shape`.

    `axes` tells which axis of the base each axis is, where the view is a transposition.
    """

    base: Value
    pieces: Shape
    order: Shape
    shape: Shape
    axes: Shape | None = None

    @property
    def in_order(self) -> bool:
        """Whether the elements lie as those of the base."""
        return self.order == tuple(range(len(self.order)))

    @property
    def is_base(self) -> bool:
        """Whether the view is the base itself."""
        return self.in_order and self.shape == self.base.shape

    @property
    def moves_axes(self) -> bool:
        """Whether axes stand at other places than in the base, be they of size 1."""
        return not self.in_order or (self.axes is not None and self.axes != tuple(range(len(self.axes))))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def groups(self) -> Groups:
        """The pieces of each axis."""
        return joined([self.pieces[i] for i in self.order], self.order, self.shape)

    def base_groups(self) -> Groups:
        """The pieces of each axis of the base."""
        return joined(self.pieces, range(len(self.pieces)), self.base.shape)

    def transposed(self, perm: Sequence[int]) -> View:
        """With the axes in another order."""
        groups = self.groups()
        order = tuple(i for p in perm for i in groups[p])
        axes = None if self.axes is None else tuple(self.axes[p] for p in perm)
        return View(self.base, self.pieces, order, tuple(self.shape[p] for p in perm), axes)

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """With the elements, as they lie now, in another shape; None where the cuts do not divide each other."""
        if tuple(shape) == self.shape:
            return self
        cuts = _cuts([self.pieces[i] for i in self.order], [d for d in shape if d != 1])
        if cuts is None:
            return None
        by_piece: dict[int, list[int]] = dict(zip(self.order, cuts))
        first, pieces = {}, list[int]()
        for i in range(len(self.pieces)):
            first[i] = len(pieces)
            pieces += by_piece[i]
        order = tuple(first[i] + k for i in self.order for k in range(len(by_piece[i])))
        view = View(self.base, tuple(pieces), order, tuple(shape))
        return replace(view, axes=_axes(view))

    def coarse(self) -> tuple[Shape, Shape]:
        """(pieces, order) with those pieces joined that stay together: equal for views of equal order."""
        runs: list[list[int]] = []
        for i in self.order:
            if runs and runs[-1][-1] == i - 1:
                runs[-1].append(i)
            else:
                runs.append([i])
        sorted_ = sorted(runs)
        pieces = tuple(math.prod(self.pieces[i] for i in run) for run in sorted_)
        return pieces, tuple(sorted_.index(run) for run in runs)


def whole(value: Value) -> View:
    """A value as a view of itself."""
    pieces = tuple(d for d in value.shape if d != 1)
    rank = range(len(value.shape))
    return View(value, pieces, tuple(range(len(pieces))), tuple(value.shape), tuple(rank))


def permuted(base: Value, axes: Sequence[int]) -> View:
    """The transposition of `base` whose axes are these axes of it."""
    return whole(base).transposed(axes)


def inverse(order: Sequence[int]) -> Shape:
    """The order that undoes an order."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def joined(sizes: Sequence[int], names: Sequence[int], shape: Sequence[int]) -> Groups:
    """The names of the pieces that make up each axis of a shape."""
    groups: Groups = []
    at = 0
    for d in shape:
        group, left = list[int](), d
        while left != 1:
            left //= sizes[at]
            group.append(names[at])
            at += 1
        groups.append(group)
    return groups


def _cuts(sizes: Sequence[int], wanted: Sequence[int]) -> list[list[int]] | None:
    """Each size cut into factors, so that runs of them make up the wanted sizes."""
    cuts: list[list[int]] = []
    targets = list(wanted)[::-1]
    need = targets.pop() if targets else 1
    for size in sizes:
        factors, left = list[int](), size
        while left != 1:
            part = min(left, need)
            if left % part or need % part or part == 1:
                return None
            factors.append(part)
            left, need = left // part, need // part
            if need == 1 and targets:
                need = targets.pop()
        cuts.append(factors)
    return cuts


def _axes(view: View) -> Shape | None:
    """Which axis of the base each axis is, where all of them are one; those of size 1 in their order."""
    if len(view.shape) != len(view.base.shape):
        return None
    own = {tuple(g): i for i, g in enumerate(view.base_groups()) if g}
    ones = iter(i for i, d in enumerate(view.base.shape) if d == 1)
    found = [own.get(tuple(g)) if g else next(ones, None) for g in view.groups()]
    return None if None in found else tuple(i for i in found if i is not None)
