"""A call of an operator: its name, attributes and inputs; and the tables of NumPy meanings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anylayer.folders import Table
from anylayer.layer.arguments import is_constant
from anylayer.network import Array, DType, Function

_PLAIN = frozenset(
    ("bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32", "float64")
)


def is_plain(dtype: DType) -> bool:
    """Return whether NumPy itself computes with a dtype; it does not with bfloat16, float8 and 4-bit integers."""
    return dtype.name in _PLAIN


class NoMeaning(Exception):
    """Raised when a NumPy meaning does not cover a form of its operator; onnx's reference implementation does."""


Meaning = Function
"""A function (call, *inputs) -> an array, or a list or tuple of arrays. An absent input is None or not passed."""


@dataclass(slots=True)
class OpCall:
    """A call of an operator.

    `attrs` holds every attribute of the schema at `version`, None where there is no value. `restore` turns the
    outputs into those of the file's operator, where an older or rarer form is computed by another one.
    """

    op: str
    version: int
    inputs: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    restore: Callable[[list[Array]], list[Array]] = list

    def __getitem__(self, name: str) -> Any:
        return self.attrs.get(name)

    def is_constant(self, i: int) -> bool:
        """Return whether input `i` is absent, or does not depend on the data of the network's inputs."""
        return is_constant(self.input(i))

    def input(self, i: int) -> Array | None:
        """Return input `i`, or None when it is absent."""
        return self.inputs[i] if i < len(self.inputs) else None


MEANINGS: Table[str, Meaning] = Table()
"""The NumPy meanings by operator, where the reference implementation of onnx is wrong or slow, or where open
sizes or dtypes need the operator recorded in another way. tests/layers/onnx/meanings.py lists the reasons."""
SPELLED_OUT: Table[str, Callable[[OpCall], None]] = Table()
"""Functions that make the attributes of a call explicit, in place, before it is computed or recorded."""
ANY_SIZE: set[str] = set()
"""Operators whose attributes are made explicit for dynamic sizes too; for the others, all sizes must be static."""
SHAPES: Table[str, Callable[[OpCall], Sequence[Any]]] = Table()
"""The shapes of outputs for symbolic sizes, which ONNX's shape inference does not tell."""
RECORDED: set[str] = set()
"""Operators that are always recorded as the operators of their meaning: engines lack them, or they use only the
shapes of their inputs, or return an input."""
REPLACED: Table[str, Callable[[OpCall], bool]] = Table()
"""Whether the meaning of an operator is recorded in its place, for a call with static sizes."""
ARRAYS_ONLY: set[str] = set()
"""Operators whose meaning cannot be traced; traced, they are always recorded as themselves."""
_UNSUPPORTED_BY_ENGINES = frozenset(("bool", "int8", "int16", "uint8", "uint16", "uint32", "uint64"))


def has_rare_dtype(call: OpCall) -> bool:
    """Return whether engines do not support an operator for the dtype of an input."""
    return any(x.dtype.name in _UNSUPPORTED_BY_ENGINES for x in call.inputs if x is not None)


def of(function: Function, *names: str, **renamed: str) -> Meaning:
    """Return the meaning that calls a function of the inputs with attributes of the operator as keywords.

    names: attributes that have the name of a keyword. renamed: other attributes, by keyword. An attribute
    without a value is left out, so that the function's default applies.
    """
    attributes = {**dict(zip(names, names)), **renamed}

    def compute(call: OpCall, *inputs: Any) -> Any:
        options = {keyword: call[name] for keyword, name in attributes.items() if call[name] is not None}
        return function(*inputs, **options)

    return compute


def meanings(rows: Mapping[str, Function], **how: Any) -> None:
    """Register functions of the inputs as the NumPy meanings of operators.

    Their keyword-only parameters are attributes of the operator. how: the arguments of `meaning`.
    """
    for op, function in rows.items():
        code = getattr(function, "__code__", None)  # NumPy's ufuncs have none
        first = code.co_argcount if code is not None else 0
        names = code.co_varnames[first : first + code.co_kwonlyargcount] if code is not None else ()
        meaning(op, **how)(of(function, *names))


def meaning(
    *ops: str, recorded: bool = False, replaces: Callable[[OpCall], bool] | None = None, arrays_only: bool = False
) -> Callable[[Meaning], Meaning]:
    """Register a function as the NumPy meaning of operators.

    `recorded`: the operator is always recorded as the operators of the function. `replaces`: whether it is so for
    a call with static sizes. `arrays_only`: the function cannot be traced.
    """

    def enter(function: Meaning) -> Meaning:
        MEANINGS.enter(ops, function)
        if recorded:
            RECORDED.update(ops)
        if replaces is not None:
            REPLACED.enter(ops, replaces)
        if arrays_only:
            ARRAYS_ONLY.update(ops)
        return function

    return enter
