"""Views: the elements of a value in another order, before a Transpose moves them.

A view splits the axes of its base into pieces, none of size 1, permutes the pieces, and merges them into the axes
of its shape. A transposition or reshape of a view is a view again, as long as the splits of both divide each
other.
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
    """The elements of `base` in another order and shape.

    pieces: the sizes into which the axes of the base are split, in the base's order.
    permutation: the indices of the pieces, in the order of the view.
    shape: the shape into which the permuted pieces are merged.
    axes: the axis of the base for each axis of the view, where the view is a transposition; otherwise None.
    """

    base: Value
    pieces: Shape
    permutation: Shape
    shape: Shape
    axes: Shape | None = None

    @property
    def keeps_order(self) -> bool:
        """Whether the elements are in the order of the base."""
        return self.permutation == tuple(range(len(self.permutation)))

    @property
    def is_base(self) -> bool:
        """Whether the view is equal to the base."""
        return self.keeps_order and self.shape == self.base.shape

    @property
    def moves_axes(self) -> bool:
        """Whether an axis, even of size 1, is at another place than in the base."""
        return not self.keeps_order or (self.axes is not None and self.axes != tuple(range(len(self.axes))))

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def groups(self) -> Groups:
        """Return the indices of the pieces that make up each axis of the view."""
        return group_by_axis([self.pieces[i] for i in self.permutation], self.permutation, self.shape)

    def base_groups(self) -> Groups:
        """Return the indices of the pieces that make up each axis of the base."""
        return group_by_axis(self.pieces, range(len(self.pieces)), self.base.shape)

    def transposed(self, perm: Sequence[int]) -> View:
        """Return the view with its axes permuted as by numpy.transpose."""
        groups = self.groups()
        permutation = tuple(i for p in perm for i in groups[p])
        axes = None if self.axes is None else tuple(self.axes[p] for p in perm)
        return View(self.base, self.pieces, permutation, tuple(self.shape[p] for p in perm), axes)

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """Return the view in another shape, or None where the splits do not divide each other."""
        if tuple(shape) == self.shape:
            return self
        splits = _splits([self.pieces[i] for i in self.permutation], [d for d in shape if d != 1])
        if splits is None:
            return None
        by_piece: dict[int, list[int]] = dict(zip(self.permutation, splits))
        first, pieces = {}, list[int]()
        for i in range(len(self.pieces)):
            first[i] = len(pieces)
            pieces += by_piece[i]
        permutation = tuple(first[i] + k for i in self.permutation for k in range(len(by_piece[i])))
        view = View(self.base, tuple(pieces), permutation, tuple(shape))
        return replace(view, axes=_transposed_axes(view))

    def canonical(self) -> tuple[Shape, Shape]:
        """Return (pieces, permutation) with pieces merged that stay side by side.

        It is the same for all views of one base with the same order of elements.
        """
        runs: list[list[int]] = []
        for i in self.permutation:
            if runs and runs[-1][-1] == i - 1:
                runs[-1].append(i)
            else:
                runs.append([i])
        in_order = sorted(runs)
        pieces = tuple(math.prod(self.pieces[i] for i in run) for run in in_order)
        return pieces, tuple(in_order.index(run) for run in runs)


def identity_view(value: Value) -> View:
    """Return a value as a view of itself."""
    pieces = tuple(d for d in value.shape if d != 1)
    rank = range(len(value.shape))
    return View(value, pieces, tuple(range(len(pieces))), tuple(value.shape), tuple(rank))


def transposed_view(base: Value, axes: Sequence[int]) -> View:
    """Return the transposition of a value by these axes, as a view."""
    return identity_view(base).transposed(axes)


def inverse(permutation: Sequence[int]) -> Shape:
    """Return the inverse of a permutation."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def group_by_axis(sizes: Sequence[int], names: Sequence[int], shape: Sequence[int]) -> Groups:
    """Group the names of consecutive pieces by the axis of a shape that they make up.

    sizes: the size of each piece. Their products in order must give the sizes of the shape.
    """
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


def _splits(sizes: Sequence[int], wanted: Sequence[int]) -> list[list[int]] | None:
    """Split each size into factors so that runs of the factors multiply to the wanted sizes."""
    splits: list[list[int]] = []
    targets = list(wanted)[::-1]
    rest = targets.pop() if targets else 1
    for size in sizes:
        factors, left = list[int](), size
        while left != 1:
            part = min(left, rest)
            if left % part or rest % part or part == 1:
                return None
            factors.append(part)
            left, rest = left // part, rest // part
            if rest == 1 and targets:
                rest = targets.pop()
        splits.append(factors)
    return splits


def _transposed_axes(view: View) -> Shape | None:
    """Return the axis of the base for each axis of a view that is a transposition; axes of size 1 keep their
    order."""
    if len(view.shape) != len(view.base.shape):
        return None
    own = {tuple(g): i for i, g in enumerate(view.base_groups()) if g}
    ones = iter(i for i, d in enumerate(view.base.shape) if d == 1)
    found = [own.get(tuple(g)) if g else next(ones, None) for g in view.groups()]
    return None if None in found else tuple(i for i in found if i is not None)
