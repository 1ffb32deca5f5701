"""Deferred views: a value described as a blob and the steps that compute the value from it.

Reshape, Transpose, Pad and products with a constant matrix along one axis are not written as layers at once. The
layer that consumes the value may do their work: an inner product folds the order in which a map was flattened into
its weights, a convolution folds the padding into its own. Steps that no consumer folds become layers; see
materialize.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from anylayer.graph.arrangement import Arrangement, identity
from anylayer.network import Array, Shape


class PadStep(NamedTuple):
    """Add begins[i] cells before and ends[i] cells after axis i, each with `value`."""

    begins: Shape
    ends: Shape
    value: float


class AxisProduct(NamedTuple):
    """Multiply by `matrix` (new size, old size) along `axis`: resizing, selecting cells, a matrix product."""

    axis: int
    matrix: Array


ViewStep = Arrangement | PadStep | AxisProduct
"""A step of a view. An Arrangement first reshapes to its source, where that is not the shape before it."""


@dataclass(frozen=True, slots=True)
class BlobView:
    """The result of applying `steps` in order to the blob `name`, whose shape is `base`."""

    name: str
    base: Shape
    steps: tuple[ViewStep, ...] = ()

    @property
    def shape(self) -> Shape:
        """Return the shape of the value, after all steps."""
        shape = self.base
        for step in self.steps:
            shape = shape_after(step, shape)
        return shape

    @property
    def is_rearrangement(self) -> bool:
        """Return whether the value has exactly the elements of the blob: every step is an Arrangement."""
        return all(isinstance(s, Arrangement) for s in self.steps)

    @property
    def perm(self) -> Shape | None:
        """Return for each axis of the value the axis of the blob; None unless the steps are one permutation."""
        if not self.steps:
            return tuple(range(len(self.base)))
        only = self.steps[0]
        if len(self.steps) == 1 and isinstance(only, Arrangement) and only.source == self.base:
            return only.axes
        return None

    def then(self, step: PadStep | AxisProduct) -> BlobView:
        """Return the view with one more step."""
        return replace(self, steps=(*self.steps, step))

    def transposed(self, perm: Sequence[int]) -> BlobView:
        """Return the view with the axes of the value permuted."""
        before, last = self._split()
        if 0 in last.shape:
            return self.reshaped(tuple(last.shape[p] for p in perm))
        return before._with_step(last.transposed(perm))

    def reshaped(self, shape: Shape) -> BlobView:
        """Return the view with the value in another shape."""
        before, last = self._split()
        reshaped = None if 0 in shape else last.reshaped(shape)
        if reshaped is not None:
            return before._with_step(reshaped)
        if last.keeps_order and before is not self:
            return before.reshaped(shape)
        return self._with_step(identity(shape))

    def _split(self) -> tuple[BlobView, Arrangement]:
        """Return the view without its last step, and this step, if it is an Arrangement; else an identity."""
        last = self.steps[-1] if self.steps else None
        if isinstance(last, Arrangement):
            return replace(self, steps=self.steps[:-1]), last
        return self, identity(self.shape)

    def _with_step(self, last: Arrangement) -> BlobView:
        """Return the view with one more step, which is omitted where it changes nothing."""
        if last.keeps_order and last.shape == self.shape:
            return self
        return replace(self, steps=(*self.steps, last))

    def element_indices(self) -> Array:
        """Return for each element of the value its flat index in the blob. The view must be a rearrangement."""
        array = np.arange(math.prod(self.base)).reshape(self.base)
        for step, _ in self._arrangements():
            array = step.apply(array)
        return array

    def to_blob_layout(self, array: Array) -> Array:
        """Undo the steps on an array that broadcasts to the value. The result broadcasts to the blob.

        The view must be a rearrangement, and `array` must have the rank of the value.
        """
        for step, before in self._arrangements()[::-1]:
            array = step.undo(array)
            if step.source != before:
                array = np.broadcast_to(array, step.source).reshape(before)
        return array

    def _arrangements(self) -> list[tuple[Arrangement, Shape]]:
        """Return the steps of a rearrangement, each with the shape before it."""
        steps = [s for s in self.steps if isinstance(s, Arrangement)]
        return list(zip(steps, [self.base, *(s.shape for s in steps)]))


def with_size(shape: Shape, axis: int, size: int) -> Shape:
    """Return a shape with another size of one axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def shape_after(step: ViewStep, shape: Shape) -> Shape:
    """Return the shape that a step makes of `shape`."""
    if isinstance(step, Arrangement):
        return step.shape
    if isinstance(step, PadStep):
        return tuple(n + b + e for n, b, e in zip(shape, step.begins, step.ends))
    return with_size(shape, step.axis, len(step.matrix))
