"""Views: values that a blob is but for reshaping, transposing, padding and mixing, which are put off.

What reads the value may take them over: an inner product the order in which a map was flattened, a convolution the
padding. Otherwise they become layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from anylayer.network import Array, Shape


class Reshape(NamedTuple):
    """The same elements in another shape."""

    shape: Shape


class Transpose(NamedTuple):
    """Output axis i is input axis perm[i]."""

    perm: Shape


class Pad(NamedTuple):
    """So many cells of a value before and after each axis."""

    begins: Shape
    ends: Shape
    value: float


class Mix(NamedTuple):
    """A matrix (new, old) along an axis."""

    axis: int
    matrix: Any


Step = Reshape | Transpose | Pad | Mix


@dataclass(frozen=True, slots=True)
class View:
    """What `steps` make of blob `name`, which has `base` as its shape."""

    name: str
    base: Shape
    steps: tuple[Step, ...] = ()

    @property
    def shape(self) -> Shape:
        shape = self.base
        for step in self.steps:
            shape = shape_after(step, shape)
        return shape

    @property
    def moves_only(self) -> bool:
        """Whether each element is one of the blob's."""
        return all(isinstance(s, (Reshape, Transpose)) for s in self.steps)

    @property
    def perm(self) -> Shape | None:
        """The axes of the blob in the order of the value's; None where the steps are more than that."""
        if not self.steps:
            return tuple(range(len(self.base)))
        only = self.steps[0]
        return only.perm if len(self.steps) == 1 and isinstance(only, Transpose) else None

    def then(self, step: Step) -> View:
        """With one more step; steps that undo each other go."""
        shape = self.shape
        if isinstance(step, Transpose):
            last = self.steps[-1] if self.steps else None
            if isinstance(last, Transpose):
                joined = Transpose(tuple(last.perm[p] for p in step.perm))
                return replace(self, steps=self.steps[:-1]).then(joined)
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

    def order(self) -> Array:
        """For steps that only move: the place in the blob of each element of the value."""
        return apply(np.arange(math.prod(self.base)).reshape(self.base), self.steps)

    def back(self, array: Array) -> Array:
        """An array that lies on the value, as it lies on the blob (steps that only move)."""
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


def shape_after(step: Step, shape: Shape) -> Shape:
    """The shape that a step gives."""
    if isinstance(step, Reshape):
        return step.shape
    if isinstance(step, Transpose):
        return tuple(shape[p] for p in step.perm)
    if isinstance(step, Pad):
        return tuple(n + b + e for n, b, e in zip(shape, step.begins, step.ends))
    return tuple(len(step.matrix) if i == step.axis else n for i, n in enumerate(shape))


def apply(array: Array, steps: tuple[Step, ...]) -> Array:
    """What moving steps make of an array."""
    for step in steps:
        array = array.reshape(step.shape) if isinstance(step, Reshape) else array.transpose(step.perm)  # type: ignore[union-attr]
    return array
