"""Traced: an array with shape and dtype but no data, that answers NumPy's protocols."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.tracing.graph import Graph, Value


class Traced:
    """A value of a graph that is being recorded, standing in for an ndarray."""

    def __init__(self, graph: Graph, value: Value) -> None:
        self._graph = graph
        self._value = value

    @property
    def shape(self) -> tuple[Any, ...]:
        return self._value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._value.dtype

    @property
    def ndim(self) -> int:
        return len(self._value.shape)


def is_traced(x: object) -> bool:
    """Whether `x` is a traced array."""
    return isinstance(x, Traced)
