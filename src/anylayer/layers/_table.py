"""Layer types that a row of a table declares, or that differ from a base class only in a few attributes."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anylayer.layer import Array, Field, Layer, Registry, layer, need
from anylayer.network import Function


def define(name: str, base: type[Layer], summary: str, details: str, /, **body: Any) -> None:
    """Register layer type `name`: a subclass of `base` with the attributes `body`, in the module of `base`.

    The docstring consists of `summary` and `details`. The part of `name` before its last point is not in the name
    of the class. `body` may have the `dialects` of the type.
    """
    dialects = body.pop("dialects", ())
    doc = f"{summary}\n\n    {details}\n    "
    members = {"__doc__": doc, "__module__": base.__module__, **body}
    layer(name, dialects=dialects)(type(name.rpartition(".")[2], (base,), members))


@dataclass(frozen=True, slots=True)
class OperatorType:
    """A layer type that is a function of its inputs and attributes: see `row`."""

    summary: str
    function: Function
    source: str
    details: str
    body: Mapping[str, Any]
    attributes: Mapping[str, Field]
    constants: Mapping[str, Callable[[Any, str], Any]]


def row(
    summary: str,
    function: Function,
    source: str = "",
    details: str = "",
    body: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> OperatorType:
    """Return the row of a layer type that is a function of its inputs and attributes.

    summary: what it does, as a sentence. details: further sentences about inputs, outputs and attributes.
    function: takes the inputs by position and the attributes by keyword. It refuses what it does not support.
        A keyword-only parameter without a default that is not among `arguments` gets the layer's attribute or
        method of that name, such as `outputs` or `blob`.
    source: where the format defines it; by default its name.
    body: further attributes of the class, such as `message`, fields that the function does not take, and
        `dialects`.
    arguments: the declared attributes, and the inputs that must be constants, by the parameters of the function.
        A constant has the function that converts it and refuses others, such as `integers` of layer.arguments.
    """
    attributes = {name: value for name, value in arguments.items() if isinstance(value, Field)}
    constants = {name: value for name, value in arguments.items() if name not in attributes}
    return OperatorType(summary, function, source, details, body or {}, attributes, constants)


def computes(what: str, function: Function, source: str = "") -> OperatorType:
    """Return the row of an operator that computes `what`, and has inputs only."""
    return row(f"Compute {what}.", function, source)


def row_of_tensorflow(kind: str) -> OperatorType:
    """Return the row of an operation of TensorFlow, for another format's operator that computes the same."""
    return vars(Registry.of("tensorflow").find(kind)[0].layer_class)["row"]


def of_tensorflow(kind: str) -> Function:
    """Return the function of an operation of TensorFlow."""
    return row_of_tensorflow(kind).function


def need_one_dtype(self: Layer, *xs: Array | None) -> None:
    """Refuse inputs of different dtypes: a `check` of `operators`."""
    dtypes = [x.dtype.name for x in xs if x is not None]
    need(len({*dtypes}) <= 1, f"all inputs must have one dtype, got {', '.join(dtypes)}")


def operators(
    base: type[Layer],
    details: str,
    rows: Mapping[str, OperatorType],
    check: Function | None = None,
    attributes: Mapping[str, Any] | None = None,
    **body: Any,
) -> None:
    """Register the layer types of a table, by their names.

    details: the rest of their docstrings, in which {} stands for the operator's source and {name} for its name.
    check: called with the layer and its inputs, before the operator's function.
    attributes: fields of all operators. body: further attributes of the classes.
    """
    for name, entry in rows.items():
        whole = replace(entry, attributes={**(attributes or {}), **entry.attributes})
        lines = [*textwrap.wrap(entry.details, 111), details.format(entry.source or name, name=name)]
        members = {**body, **entry.body, **whole.attributes, "row": whole}
        define(name, base, entry.summary, "\n    ".join(lines), forward=_forward(whole, check), **members)


def _forward(entry: OperatorType, check: Function | None) -> Function:
    """Return the method `forward` of an operator, with the signature of its inputs."""
    parameters = _parameters(entry.function)
    of_layer = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    keywords = dict.fromkeys((*entry.attributes, *of_layer))
    inputs = [p for p in parameters if p.name not in keywords and p.kind is not p.VAR_KEYWORD]

    def forward(self: Layer, *arrays: Any) -> Any:
        if check is not None:
            check(self, *arrays)
        arguments = list(arrays)
        for i, (array, parameter) in enumerate(zip(arrays, inputs)):
            if array is not None and parameter.name in entry.constants:
                arguments[i] = entry.constants[parameter.name](array, parameter.name)
        return entry.function(*arguments, **{name: getattr(self, name) for name in keywords})

    instance = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    forward.__signature__ = inspect.Signature([instance, *inputs])  # type: ignore[attr-defined]  # functions may have it
    return forward


def _parameters(function: Function) -> Sequence[inspect.Parameter]:
    """Return the parameters of a function. NumPy's ufuncs state only their number."""
    if not isinstance(function, np.ufunc):
        return list(inspect.signature(function).parameters.values())
    return [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in "xyz"[: function.nin]]
