"""Layer types that a row of a table declares, or that differ from a base class only in a few attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anylayer.layer import Layer, layer

Function = Callable[..., Any]


def define(name: str, base: type[Layer], summary: str, details: str, **body: Any) -> None:
    """Register layer type `name`: a subclass of `base` with the attributes `body`, in the module of `base`.

    The docstring consists of `summary` and `details`. The part of `name` before its last point is not in the name
    of the class.
    """
    doc = f"{summary}\n\n    {details}\n    "
    members = {"__doc__": doc, "__module__": base.__module__, **body}
    layer(name)(type(name.rpartition(".")[2], (base,), members))


@dataclass(frozen=True, slots=True)
class OperatorType:
    """A layer type that is a function of its inputs and attributes.

    summary: what it does, as a sentence.
    function: takes the inputs by position and the attributes by keyword. It refuses what it does not support.
    source: where the format defines it; by default its name.
    attributes: the declared fields, by the keywords of the function.
    constants: which inputs must be constants, by the parameters of the function: each with the function that
        converts the input, such as `integers` of layer.arguments.
    body: further attributes of the class, such as `message`, and fields that the function does not take.
    """

    summary: str
    function: Function
    source: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Callable[[Any, str], Any]] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)


def computes(what: str, function: Function, source: str = "") -> OperatorType:
    """Return an operator that computes `what`, and has inputs only."""
    return OperatorType(f"Compute {what}.", function, source)


def operators(
    base: type[Layer],
    details: str,
    rows: Mapping[str, OperatorType],
    check: Function | None = None,
    attributes: Mapping[str, Any] | None = None,
    **body: Any,
) -> None:
    """Register the layer types of a table, by their names.

    details: the rest of their docstrings, in which {} stands for the operator's source.
    check: called with the layer and its inputs, before the operator's function.
    attributes: fields of all operators. body: further attributes of the classes.
    """
    for name, row in rows.items():
        whole = replace(row, attributes={**(attributes or {}), **row.attributes})
        text = details.format(row.source or name)
        define(
            name, base, row.summary, text, forward=_forward(whole, check), **body, **row.body, **whole.attributes
        )


def _forward(row: OperatorType, check: Function | None) -> Function:
    """Return the method `forward` of an operator, with the signature of its inputs."""
    inputs = [p for p in _parameters(row.function) if p.name not in row.attributes]

    def forward(self: Layer, *arrays: Any) -> Any:
        if check is not None:
            check(self, *arrays)
        arguments = list(arrays)
        for i, (array, parameter) in enumerate(zip(arrays, inputs)):
            if array is not None and parameter.name in row.constants:
                arguments[i] = row.constants[parameter.name](array, parameter.name)
        return row.function(*arguments, **{name: getattr(self, name) for name in row.attributes})

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    forward.__signature__ = inspect.Signature([own, *inputs])  # type: ignore[attr-defined]  # functions may have it
    return forward


def _parameters(function: Function) -> Sequence[inspect.Parameter]:
    """Return the parameters of a function. NumPy's ufuncs state only their number."""
    if not isinstance(function, np.ufunc):
        return list(inspect.signature(function).parameters.values())
    return [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in "xyz"[: function.nin]]
