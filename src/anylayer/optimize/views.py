"""Views: the elements of a value in another order, before a Transpose moves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anylayer.graph.arrangement import Arrangement, identity
from anylayer.graph.ir import Value


@dataclass(frozen=True, slots=True)
class View(Arrangement):
    """An arrangement of the elements of the value `base`."""

    base: Value


def identity_view(value: Value) -> View:
    """Return a value as a view of itself."""
    same = identity(value.shape)
    return View(same.source, same.pieces, same.permutation, same.shape, same.axes, value)


def transposed_view(base: Value, axes: Sequence[int]) -> View:
    """Return the transposition of a value by these axes, as a view."""
    return identity_view(base).transposed(axes)
