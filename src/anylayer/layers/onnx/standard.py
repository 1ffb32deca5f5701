"""The operators of ONNX's standard set: one class each, made from its schema, except for those of control.py."""

from __future__ import annotations

import re
from typing import Any

from anylayer.errors import need
from anylayer.layer import Layer, layer
from anylayer.layers._table import define
from anylayer.layers.onnx import control
from anylayer.layers.onnx._standard import Standard, fields_of
from anylayer.libraries.onnx import histories
from anylayer.network import Array


@layer("Constant")
class Constant(Layer):
    """Return an array that the file holds: an initializer or a Constant operator.

    The output has the array's shape and dtype.
    Source: ONNX operator specification, Constant-1 to Constant-13.
    """

    message = ""

    def forward(self) -> Array:
        need(len(self._blobs) == 1, f"must hold 1 array, got {len(self._blobs)}")
        return self._blobs[0]

    def check_blobs(self) -> None:
        """Do nothing: the only blob is the output."""


_FILES = frozenset(("ImageDecoder",))
"""Operators that take the bytes of a file."""


def _first_sentence(text: str) -> str:
    words = " ".join(text.split())
    return re.split(r"(?<=[.:])\s", words, maxsplit=1)[0].rstrip(":") or "An operator of ONNX."


def _gives_arrays(schema: Any) -> bool:
    """Return whether inputs and outputs can be arrays; sequences, optional values and strings cannot."""
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    kinds = [constraints.get(formal.type_str, [formal.type_str]) for formal in [*schema.inputs, *schema.outputs]]
    return all(any(k.startswith("tensor(") and k != "tensor(string)" for k in some) for some in kinds)


def _enter() -> None:
    written_by_hand = {"Constant", *vars(control)}
    for name, versions in histories().items():
        if name not in written_by_hand and name not in _FILES and _gives_arrays(versions[-1]):
            last = versions[-1]
            source = f"Source: ONNX operator specification, {name}-{last.since_version}."
            define(name, Standard, _first_sentence(last.doc), source, **fields_of(versions))


_enter()
