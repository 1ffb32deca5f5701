"""Function calls as layers: a functional model records one where its code calls a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import LayerError, nearest, plural
from anylayer.layer import need
from anylayer.layers._table import define
from anylayer.layers.keras._base import KerasLayer, with_inputs
from anylayer.network import Array, Node

Function = Callable[..., Any]


class FunctionLayer(KerasLayer):
    """A function call. Its arguments are those of the call and those of the configuration."""

    function: ClassVar[Function]
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Names of the arguments that do not affect the result."""

    values: dict[str, Any]

    def prepare(self, node: Node, dialect: str | None) -> None:
        config = {**node.params.get("config", {})}
        call = node.params.get("call", {"args": [{"input": i} for i in range(len(node.inputs))], "kwargs": {}})
        bare = Node(node.name, node.type, node.inputs, node.outputs, {}, node.blobs)
        super().prepare(bare, dialect)
        self.call = call
        skipped = {"name", "trainable", "dtype", "function", *self.ignored}
        keywords = _keywords(type(self).function)
        if keywords is not None and "dtype" in keywords:
            skipped.discard("dtype")
        arguments = {k: v for k, v in {**config, **call["kwargs"]}.items() if k not in skipped}
        self.values = {k: v for k, v in arguments.items() if v is not None or k == "axis"}
        for name in self.values if keywords is not None else ():
            if name not in (keywords or ()):
                raise LayerError(f"has no argument '{name}'{nearest(name, keywords or ())}")

    def forward(self, *inputs: Array) -> list[Array]:
        """Return the result of the function, with float64 cast to float32."""
        args, kwargs = with_inputs(self.call["args"], inputs), with_inputs(self.values, inputs)
        try:
            result = type(self).function(*args, **kwargs)
        except (TypeError, AttributeError) as error:
            raise LayerError(f"does not take these arguments ({error})") from error
        listed = result if isinstance(result, (list, tuple)) else [result]
        # a traced array without axes has NumPy's scalar class as its __class__
        results = [np.asarray(r) if issubclass(type(r), (int, float, np.generic)) else r for r in listed]
        need(
            len(results) >= self.outputs,
            f"returns {plural(len(results), 'output')}, but the node has {self.outputs}",
        )
        for result in results:
            kind = getattr(result, "dtype", np.dtype(object)).kind
            need(kind in "fiub", f"returns a {type(result).__name__}, which is not a tensor of numbers")
        return [_narrow(r) for r in results][: self.outputs]


def _keywords(function: Function) -> list[str] | None:
    """Return the names of a function's parameters. None where it takes any keyword."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # functions of NumPy in C have no signature before NumPy 2.4
        return ["out", "where", "casting", "order", "dtype", "subok"] if isinstance(function, np.ufunc) else []
    return None if any(p.kind == p.VAR_KEYWORD for p in parameters.values()) else list(parameters)


def _narrow(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype == np.float64 else x


def define_calls(
    prefix: str, functions: Mapping[str, Function], module: str, ignored: frozenset[str], source: str
) -> None:
    """Register each function as the layer type `prefix`.`name`.

    `source` says where the functions are documented; it contains {} in place of the name. `ignored` are arguments
    that do not affect the result.
    """
    for name, function in functions.items():
        where = source.format(name)
        members = {"__module__": module, "function": staticmethod(function), "ignored": ignored}
        define(f"{prefix}.{name}", FunctionLayer, _summary(function, where), f"Source: {where}.", **members)


def _summary(function: Function, source: str) -> str:
    """Return one sentence that says what a function computes."""
    if isinstance(function, np.ufunc) and function.signature is None:
        return f"Compute numpy.{function.__name__} of each element."
    if isinstance(function, np.ufunc) or function.__module__ == "numpy":
        return f"Compute numpy.{function.__name__}."
    first_line = (function.__doc__ or "").strip().split("\n")[0]
    return first_line or f"Compute {source}."
