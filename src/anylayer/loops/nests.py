"""Nested loops over groups of axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from anylayer.graph.expressions import Expression, constant
from anylayer.loops.ir import Statement, substituted

N = TypeVar("N", bound=tuple[Any, ...])


class Nest(NamedTuple):
    """Nested loops: the number of integer divisions in the innermost body, the statements, those of the innermost
    body, and (variable, extent) of the outermost loop of each group.
    """

    divisions: int
    statements: list[Statement]
    inner: list[Statement]
    loops: list[tuple[str, Expression]]


def join_groups(
    best: N,
    groups: list[list[int]],
    nest: Callable[[list[list[int]]], N],
    suit: Callable[[int, int], bool] = lambda a, b: True,
) -> tuple[N, list[list[int]]]:
    """Return nested loops and their groups of axes, in which adjacent groups share a loop if that needs no further
    integer division.

    best: the nest of the given groups. nest: returns the nest of other ones; its first item is the number of
    divisions. suit: whether the groups that begin with two axes may share a loop.
    """
    for at in reversed(range(len(groups) - 1)):
        if suit(groups[at][0], groups[at + 1][0]):
            tried = [*groups[:at], groups[at] + groups[at + 1], *groups[at + 2 :]]
            other = nest(tried)
            if other[0] <= best[0]:
                best, groups = other, tried
    return best, groups


def repeated_stores(
    store: Callable[[list[Expression]], list[Statement]], name: str, extent: Expression
) -> Callable[[list[Expression]], list[Statement]]:
    """Return a function that calls `store` for each value of a variable, of which the index is computed."""

    def all_stores(index: list[Expression]) -> list[Statement]:
        values = [{name: constant(i)} for i in range(extent.constant or 0)]
        return [s for value in values for s in store([substituted(e, value) for e in index])]

    return all_stores
