"""What all MXNet operators share: attributes as fields, several names of one operator, checks of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from anylayer.layer import Array, Enum, Field, Layer, Node, attribute, need, need_shape
from anylayer.layer.arguments import axis_of
from anylayer.layers import _table
from anylayer.layers._table import OperatorType, need_one_dtype
from anylayer.network import Function

FLAG = attribute("bool", False)
INT = attribute("int32")
INTS = attribute("int32", (), repeated=True)
ANY = attribute("any", None)
DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")
DTYPE = attribute(Enum(*DTYPES), "float32")
SOURCE = "Source: src/operator/{} of MXNet."
_IGNORED = frozenset(("workspace", "cudnn_tune", "cudnn_off", "num_args", "ctx"))
"""Attributes of memory and devices, and the number of inputs, which the inputs themselves give."""


class MXNetLayer(Layer):
    """An operator of MXNet, whose attributes are fields. An attribute None is absent where None is its default."""

    message = "attrs"
    training: ClassVar[frozenset[str]] = frozenset()
    """Further attributes on which only training depends."""
    neutral: ClassVar[Mapping[str, object]] = {}
    """Attributes that are not supported, with the value at which they have no effect."""
    without_effect: ClassVar[tuple[str, int, int]] = ("", 0, 0)
    """An attribute, the value at which it had no effect, and the version since which it has one."""
    data_inputs: ClassVar[int | None] = None
    """How many inputs are data, where the inputs after them are labels, which only the loss reads."""
    input_names: ClassVar[tuple[str, ...]] = ()
    """The names of all inputs, where files of before version 0.9 leave the last ones out."""

    def prepare(self, node: Node, dialect: str | None) -> None:
        attrs, ignored = {}, _IGNORED | self.training | {*self.neutral}
        for name, value in node.params.get("attrs", {}).items():
            declared, needed = self.fields.get(name), self.neutral.get(name, value)
            need(value == needed, f"{name}={value} is not supported, only {name}={needed}")
            is_absent = value is None and declared is not None and declared.kind != "any"
            old, number, version = self.without_effect
            is_absent = is_absent or (name == old and value == number and node.version < version)
            if not is_absent and (declared is not None or name not in ignored):
                attrs[name] = value
        super().prepare(replace(node, params={"attrs": attrs}), dialect)


def operators(
    rows: Mapping[str, OperatorType], details: str = SOURCE, check: Function | None = None, **fields: Field
) -> None:
    """Register the operators of a table. A key consists of all names of an operator."""
    named = {name: entry for names, entry in rows.items() for name in names.split()}
    _table.operators(MXNetLayer, details, named, check or need_one_dtype, fields)


def along(x: Array, axis: int | None) -> tuple[Array, int]:
    """Return an array with the index of an axis, or the flat array with axis 0 where the axis is None."""
    return (x.reshape(-1), 0) if axis is None else (x, axis_of(axis, len(x.shape)))


def need_weights(w: Array, shape: Sequence[int], bias: Array | None, count: int, no_bias: bool) -> None:
    """Refuse weights of another shape, and a bias of another size than `count` or against no_bias."""
    need(no_bias == (bias is None), f"no_bias is {no_bias}, but there is {'no' if bias is None else 'a'} bias")
    need_shape(w, tuple(shape), "the weights")
    if bias is not None:
        need_shape(bias, (count,), "the bias")


def need_float32(self: Layer, *xs: Array | None) -> None:
    """Refuse inputs of dtypes other than float32."""
    dtypes = [x.dtype.name for x in xs if x is not None and x.dtype != np.float32]
    need(not dtypes, f"only float32 is supported, got {', '.join(dtypes)}")


def any_dtypes(self: Layer, *xs: Array | None) -> None:
    """Take inputs of any dtypes."""


def training(names: str) -> dict[str, frozenset[str]]:
    """Return the part of a class that names attributes of training."""
    return {"training": frozenset(names.split())}
