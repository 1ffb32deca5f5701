"""The operators of ONNX's standard set that have no file of their own: one class each, made from its schema."""

from __future__ import annotations

import re
from typing import Any

from anylayer.layers._table import define
from anylayer.layers.onnx import (  # noqa: F401 (their meanings are registered on import; their operators get no class here)
    _elementwise,
    _movement,
    _quantized,
    _reductions,
    _sampling,
    _sequences,
    _windows,
    constant,
    control,
)
from anylayer.layers.onnx._base import Standard, fields_of
from anylayer.libraries.onnx import histories

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
    written_by_hand = {*vars(constant), *vars(control)}
    for name, versions in histories().items():
        if name not in written_by_hand and name not in _FILES and _gives_arrays(versions[-1]):
            last = versions[-1]
            source = f"Source: ONNX operator specification, {name}-{last.since_version}."
            define(name, Standard, _first_sentence(last.doc), source, **fields_of(versions))


_enter()
