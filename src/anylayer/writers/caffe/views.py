"""Deferred views: a value described as a blob and the steps that compute the value from it.

Reshape, Transpose, Pad and products with a constant matrix along one axis are not written as layers at once. The
layer that consumes the value may do their work: an inner product absorbs the order in which a map was flattened
into its weights, a convolution takes over the padding. Steps that no consumer takes over become layers; see
materialize.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from anylayer.network import Array, Shape


class Reshape(NamedTuple):
    """Keep the elements in row-major order and change the shape."""

    shape: Shape


class Transpose(NamedTuple):
    """Permute the axes: output axis i is input axis perm[i]."""

    perm: Shape


class Pad(NamedTuple):
    """Add begins[i] cells before and ends[i] cells after axis i, each with `value`."""

    begins: Shape
    ends: Shape
    value: float


class AxisProduct(NamedTuple):
    """Multiply by `matrix` (new size, old size) along `axis`: resizing, selecting cells, a matrix product."""

    axis: int
    matrix: Array


ViewStep = Reshape | Transpose | Pad | AxisProduct


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
        """Return whether the value has exactly the elements of the blob: every step is a Reshape or Transpose."""
        return all(isinstance(s, (Reshape, Transpose)) for s in self.steps)

    @property
    def perm(self) -> Shape | None:
        """Return for each axis of the value the axis of the blob; None unless the steps are one permutation."""
        if not self.steps:
            return tuple(range(len(self.base)))
        only = self.steps[0]
        return only.perm if len(self.steps) == 1 and isinstance(only, Transpose) else None

    def then(self, step: ViewStep) -> BlobView:
        """Return the view with one more step. Combine it with the last step, or omit it, where that is exact."""
        shape = self.shape
        if isinstance(step, Transpose):
            last = self.steps[-1] if self.steps else None
            if isinstance(last, Transpose):
                combined = Transpose(tuple(last.perm[p] for p in step.perm))
                return replace(self, steps=self.steps[:-1]).then(combined)
            moving = [p for p in step.perm if shape[p] != 1]
            if step.perm == tuple(range(len(shape))):
                return self
            if moving == sorted(moving):
                return self.then(Reshape(tuple(shape[p] for p in step.perm)))
        if isinstance(step, Reshape):
            if self.steps and isinstance(self.steps[-1], Reshape):
                return replace(self, steps=self.steps[:-1]).then(step)
            if step.shape == shape:
                return self
        if isinstance(step, Pad) and not any((*step.begins, *step.ends)):
            return self
        return replace(self, steps=(*self.steps, step))

    def element_indices(self) -> Array:
        """Return for each element of the value its flat index in the blob. The view must be a rearrangement."""
        array = np.arange(math.prod(self.base)).reshape(self.base)
        for step in self.steps:
            array = array.reshape(step.shape) if isinstance(step, Reshape) else array.transpose(step.perm)  # type: ignore[union-attr]
        return array

    def to_blob_layout(self, array: Array) -> Array:
        """Undo the steps on an array that broadcasts to the value. The result broadcasts to the blob.

        The view must be a rearrangement, and `array` must have the rank of the value.
        """
        shape = self.base
        shapes = []
        for step in self.steps:
            shapes.append(shape)
            shape = shape_after(step, shape)
        for step, before in zip(self.steps[::-1], shapes[::-1]):
            if isinstance(step, Transpose):
                array = array.transpose(np.argsort(step.perm))
            else:
                array = np.broadcast_to(array, shape_after(step, before)).reshape(before)
        return array


def shape_after(step: ViewStep, shape: Shape) -> Shape:
    """Return the shape that a step makes of `shape`."""
    if isinstance(step, Reshape):
        return step.shape
    if isinstance(step, Transpose):
        return tuple(shape[p] for p in step.perm)
    if isinstance(step, Pad):
        return tuple(n + b + e for n, b, e in zip(shape, step.begins, step.ends))
    return tuple(len(step.matrix) if i == step.axis else n for i, n in enumerate(shape))
