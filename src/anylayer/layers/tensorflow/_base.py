"""What all TensorFlow operations share: attributes as fields, named results, checks of constant inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from anylayer.layer import Array, Layer, Node, need
from anylayer.layer.arguments import integers

SOURCE = "Source: tf.raw_ops.{name}; tensorflow/core/kernels/"
SAME_SHAPE = "The function applies to each element. The output has the shape of the input."
"""Parts of the docstrings of operations in tables."""
_ALL = 1 << 20
_DTYPES = re.compile(r"T[a-z_A-Z]*|U|N|Index")
"""Attributes that state the dtypes or the number of the inputs, which the inputs themselves give."""


class TensorFlowLayer(Layer):
    """An operation of a TensorFlow graph, whose attributes are fields.

    Attributes that begin with "_" were added by a compiler. They are ignored, and so are those of `harmless`.
    """

    message = "attr"
    harmless: ClassVar[frozenset[str]] = frozenset()
    """Names of the attributes that no output depends on."""
    shown: ClassVar[int] = _ALL
    """How many outputs become outputs of the network when they have no consumer; the others serve training."""

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        """Return the name of each result, and the number of outputs that it consists of."""
        return (("output", 1),)

    def prepare(self, node: Node, dialect: str | None) -> None:
        attr = node.params.get("attr", {})
        fields = {k: v for k, v in attr.items() if k in self.fields or not self._is_ignored(k)}
        super().prepare(replace(node, params={"attr": fields}), dialect)

    def _is_ignored(self, name: str) -> bool:
        return name in self.harmless or name.startswith("_") or _DTYPES.fullmatch(name) is not None


def count_of(attr: Mapping[str, Any], name: str) -> int:
    """Return the number of outputs that an attribute states."""
    value = attr.get(name)
    need(type(value) is int and value >= 0, f"attribute '{name}' must be an integer of 0 or more, got {value!r}")
    return int(value) if isinstance(value, int) else 0


def results(*names: str) -> Any:
    """Return the class method `results` of an operation whose results have these names, each with one output."""
    return classmethod(lambda cls, attr: [(name, 1) for name in names])


def results_counted_by(attribute: str) -> Any:
    """Return the class method `results` of an operation with one result, whose outputs an attribute counts."""
    return classmethod(lambda cls, attr: [("output", count_of(attr, attribute))])


def results_listed_by(attribute: str) -> Any:
    """Return the class method `results` of an operation with one result, whose dtypes an attribute lists."""

    def results(cls: Any, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        types = attr.get(attribute)
        need(isinstance(types, list), f"attribute '{attribute}' must be a list of dtypes")
        return (("output", len(types or ())),)

    return classmethod(results)


def pairs_of(values: Array, count: int, what: str) -> list[tuple[int, int]]:
    """Return pairs of numbers of 0 or more from a constant of shape (count, 2)."""
    flat = integers(values, what, 2)
    need(
        tuple(values.shape) == (count, 2) and all(v >= 0 for v in flat),
        f"{what} must be {count} pairs of 0 or more, got shape {tuple(values.shape)}: {flat[:20]}",
    )
    return list(zip(flat[::2], flat[1::2]))
