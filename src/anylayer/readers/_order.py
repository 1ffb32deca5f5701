"""The computing order of nodes that a file may list in any order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TypeVar

from anylayer.errors import NetworkError, some

K = TypeVar("K", bound=Hashable)


def computing_order(producers: Mapping[K, Collection[K]]) -> list[K]:
    """Return the nodes such that each follows its producers, and otherwise in the order of `producers`.

    `producers` maps each node to the nodes whose outputs it reads, each listed once. A node that waits for a node
    that is not in `producers`, or that is on a cycle or depends on one, is missing in the result.
    """
    nodes = list(producers)
    waiting = [len(producers[node]) for node in nodes]
    consumers: dict[K, list[int]] = {}
    for i, node in enumerate(nodes):
        for producer in producers[node]:
            consumers.setdefault(producer, []).append(i)
    ready = [i for i, count in enumerate(waiting) if not count]
    ordered: list[K] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        ordered.append(node)
        for i in consumers.get(node, ()):
            waiting[i] -= 1
            if not waiting[i]:
                heapq.heappush(ready, i)
    return ordered


def ordered(producers: Mapping[K, Collection[K]], name: Callable[[K], str]) -> list[K]:
    """Return all nodes in computing order. Raise NetworkError, which calls nodes by `name`, for a cycle."""
    order = computing_order(producers)
    if len(order) < len(producers):
        sorted_nodes = set(order)
        names = some([f"'{name(node)}'" for node in producers if node not in sorted_nodes], 5)
        raise NetworkError(f"layers {names} depend on each other in a cycle")
    return order
