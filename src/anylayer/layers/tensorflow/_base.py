"""What all of TensorFlow's operations share: attributes, SAME padding, channels first and last."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import TraceError
from anylayer.layer import Enum, Layer, layer, need
from anylayer.layer.fields import attribute
from anylayer.network import Array, Node
from anylayer.tracing import is_traced

__all__ = ["Enum", "Operation", "attribute", "axes_of", "axis_of", "known", "layer", "need", "whole"]

_ALL = 1 << 20
_DTYPES = re.compile(r"T[a-z_A-Z]*|U|N|Index")
"""Attributes that name the dtypes of inputs or their number: the inputs tell."""


class Operation(Layer):
    """An operation of a graph; its attributes are fields. Those that begin with "_" are a compiler's own."""

    message = "attr"
    harmless: ClassVar[frozenset[str]] = frozenset()
    """Attributes that no value of the network depends on."""
    shown: ClassVar[int] = _ALL
    """How many of its outputs are the network's, where nobody reads it: the others serve training."""

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        """The operation's results by name, and how many outputs each is."""
        return (("output", 1),)

    def prepare(self, node: Node, dialect: str | None) -> None:
        attr = node.params.get("attr", {})
        kept = {k: v for k, v in attr.items() if k in self.fields or not self._passed_over(k)}
        super().prepare(replace(node, params={"attr": kept}), dialect)

    def _passed_over(self, name: str) -> bool:
        return name in self.harmless or name.startswith("_") or _DTYPES.fullmatch(name) is not None


def count_of(attr: Mapping[str, Any], name: str) -> int:
    """A number of outputs that an attribute gives."""
    value = attr.get(name)
    need(type(value) is int and value >= 0, f"attribute '{name}' must be a number of outputs, got {value!r}")
    return int(value) if isinstance(value, int) else 0


def known(x: Any, what: str) -> Array:
    """An input that decides shapes. Raises TraceError where it is computed from the network's inputs: then the
    operation runs in Python."""
    need(not is_traced(x), f"{what} is computed from the network's inputs, and decides shapes", TraceError)
    return np.asarray(x)


def whole(x: Any, what: str, axes: int = 1) -> list[int]:
    """The whole numbers of such an input, as a list; it has at most so many axes."""
    values = known(x, what)
    need(values.dtype.kind in "iu", f"{what} must be whole numbers, got {values.dtype}")
    need(values.ndim <= axes, f"{what} must be a list of numbers, got shape {values.shape}")
    return [int(v) for v in values.reshape(-1)]


def single(x: Any, what: str) -> int:
    """The one whole number of such an input."""
    values = whole(x, what)
    need(len(values) == 1, f"{what} must be one number, got {len(values)}")
    return values[0]


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """An axis, counted from the end where negative, as 0..rank-1."""
    need(-rank <= axis < rank, f"{what} must lie in {-rank}..{rank - 1} for {rank} axes, got {axis}")
    return axis % rank


def axes_of(axes: Sequence[int], rank: int, what: str = "axes") -> list[int]:
    """Axes as 0..rank-1; each at most once."""
    found = [axis_of(axis, rank, what) for axis in axes]
    need(len(set(found)) == len(found), f"{what} names an axis twice: {list(axes)}")
    return found
