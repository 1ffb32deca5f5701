"""Arrangements: the elements of an array in another order and shape, as transpositions and reshapes give them.

An arrangement splits the axes of its source into pieces, none of size 1, permutes the pieces, and merges them into
the axes of its shape. A transposition or reshape of an arrangement is an arrangement again, as long as the splits
of both divide each other. Sizes are static and not 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np

from anylayer.network import Array, Shape

Groups = list[list[int]]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The elements of an array of shape `source` in another order and shape.

    pieces: the sizes into which the axes of the source are split, in the source's order.
    permutation: the indices of the pieces, in the order of the arrangement.
    shape: the shape into which the permuted pieces are merged.
    axes: the axis of the source for each axis of the shape, where the arrangement is a transposition; else None.
    """

    source: Shape
    pieces: Shape
    permutation: Shape
    shape: Shape
    axes: Shape | None

    @property
    def keeps_order(self) -> bool:
        """Whether the elements are in the order of the source."""
        return self.permutation == tuple(range(len(self.permutation)))

    @property
    def is_identity(self) -> bool:
        """Whether the elements and the shape are those of the source."""
        return self.keeps_order and self.shape == self.source

    @property
    def moves_axes(self) -> bool:
        """Whether an axis, even of size 1, is at another place than in the source."""
        return not self.keeps_order or (self.axes is not None and self.axes != tuple(range(len(self.axes))))

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def groups(self) -> Groups:
        """Return, for each axis of the shape, the indices of the pieces that are merged into it."""
        return group_by_axis([self.pieces[i] for i in self.permutation], self.permutation, self.shape)

    def source_groups(self) -> Groups:
        """Return, for each axis of the source, the indices of the pieces into which it is split."""
        return group_by_axis(self.pieces, range(len(self.pieces)), self.source)

    def transposed(self, perm: Sequence[int]) -> Self:
        """Return the arrangement with its axes permuted as by numpy.transpose."""
        groups = self.groups()
        permutation = tuple(i for p in perm for i in groups[p])
        axes = None if self.axes is None else tuple(self.axes[p] for p in perm)
        return replace(self, permutation=permutation, shape=tuple(self.shape[p] for p in perm), axes=axes)

    def reshaped(self, shape: Sequence[int]) -> Self | None:
        """Return the arrangement in another shape, or None where the splits do not divide each other."""
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
        moved = replace(self, pieces=tuple(pieces), permutation=permutation, shape=tuple(shape), axes=None)
        return replace(moved, axes=_transposed_axes(moved))

    def canonical(self) -> tuple[Shape, Shape]:
        """Return (pieces, permutation) with pieces merged that stay side by side.

        It is the same for all arrangements of one source with the same order of elements.
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

    def moves(self) -> tuple[Shape, Shape]:
        """Return (shape, perm) such that the source, reshaped and transposed so, has the arrangement's order."""
        if self.axes is not None:
            return self.source, self.axes
        parts = self.source_groups()
        places = {i: at for at, i in enumerate(self.permutation)}
        if all(places[b] == places[a] + 1 for g in parts for a, b in pairwise(g)):  # the source keeps its axes
            first = [places[g[0]] if g else -1 for g in parts]
            return self.source, tuple(sorted(range(len(parts)), key=lambda i: (first[i], i)))
        groups = self.groups()
        if all(b == a + 1 for g in groups for a, b in pairwise(g)):  # no axis of the result is split
            at = sorted(range(len(groups)), key=lambda i: (groups[i][0] if groups[i] else -1, i))
            return tuple(self.shape[i] for i in at), inverse(at)
        return self.canonical()

    def apply(self, array: Array) -> Array:
        """Return the array, which has as many elements as the source, in this arrangement."""
        return array.reshape(self.pieces).transpose(self.permutation).reshape(self.shape)

    def undo(self, array: Array) -> Array:
        """Return an array that broadcasts to the source, from one that broadcasts to the shape.

        The array has the rank of the shape.
        """
        if self.axes is not None:
            return array.transpose(inverse(self.axes))
        permuted = np.broadcast_to(array, self.shape).reshape([self.pieces[i] for i in self.permutation])
        return permuted.transpose(inverse(self.permutation)).reshape(self.source)


def identity(shape: Sequence[int]) -> Arrangement:
    """Return the arrangement that changes nothing about an array of this shape."""
    pieces = tuple(d for d in shape if d != 1)
    return Arrangement(tuple(shape), pieces, tuple(range(len(pieces))), tuple(shape), tuple(range(len(shape))))


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


def _transposed_axes(moved: Arrangement) -> Shape | None:
    """Return the axis of the source for each axis of a transposition, None for another arrangement.

    Axes of size 1 keep their order.
    """
    if len(moved.shape) != len(moved.source):
        return None
    groups = {tuple(g): i for i, g in enumerate(moved.source_groups()) if g}
    ones = iter(i for i, d in enumerate(moved.source) if d == 1)
    axes = [groups.get(tuple(g)) if g else next(ones, None) for g in moved.groups()]
    return None if None in axes else tuple(i for i in axes if i is not None)
