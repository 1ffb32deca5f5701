"""Layer types that NumPy functions define: arguments are the inputs, and keywords the fields of the file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from anylayer.errors import need, plural
from anylayer.network import Function

_WEIGHTS = "blobs"
_KEYWORDS = "_fields_taken"
_OPEN = ("attr", "config")
"""The messages of TensorFlow and Keras, which hold fields about types and training for every layer. A function
does not have to take them."""


def as_class(definition: Any) -> Any:
    """Return the class of a function that computes a layer, and anything else unchanged.

    A function `make(params, blobs)` is one that makes an instance with OpenCV's contract.
    """
    if not inspect.isfunction(definition):
        return definition
    names = list(inspect.signature(definition).parameters)
    return definition if names == ["params", "blobs"] else _class_of(definition)


def is_function(cls: Any) -> bool:
    """Return whether a class was made of a function that computes a layer."""
    return hasattr(cls, _KEYWORDS)


def require_fields_taken(cls: Any, params: Mapping[str, Any]) -> None:
    """Raise LayerError for a field of a file's layer that the function of its class does not take.

    params: the messages of the layer, by name. Nothing is checked for other classes.
    """
    keywords = getattr(cls, _KEYWORDS, None)
    for message, values in params.items():
        if keywords is None or message in _OPEN or not isinstance(values, Mapping):
            continue
        unknown = [field for field in values if field not in keywords and not isinstance(values[field], Mapping)]
        need(
            not unknown,
            f"function {cls.__name__} does not take '{', '.join(unknown)}', which the file writes. Add it after "
            "a *, as a keyword with a default, or take all fields with **fields",
        )


def _class_of(function: Function) -> type:
    """Return a class with OpenCV's contract whose forward calls a function.

    The positional parameters of the function are the inputs. The keyword-only ones are fields of the layer, with
    their defaults; `blobs` is the tuple of weights. The function returns an array, or a list or tuple of arrays.
    A field that the file lacks and that has no default, and a field that the function does not take, raise
    LayerError when the class is called.
    """
    name = function.__name__
    parameters = inspect.signature(function).parameters.values()
    keywords = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in positional)
    most = None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional)

    def __init__(self: Any, params: dict[str, Any], blobs: Sequence[Any]) -> None:
        self.values = {k: v for k, v in params.items() if takes_all or k in keywords}
        if _WEIGHTS in keywords:
            self.values[_WEIGHTS] = blobs
        missing = [k for k, p in keywords.items() if p.default is p.empty and k not in self.values]
        need(not missing, f"the file has no field '{', '.join(missing)}', which function {name} needs")

    def forward(self: Any, inputs: list[Any]) -> list[Any]:
        takes = (
            plural(len(positional), "array") if least == most else f"{least} to {most or 'any number of'} arrays"
        )
        need(
            least <= len(inputs) and (most is None or len(inputs) <= most),
            f"function {name} takes {takes}, the layer has {plural(len(inputs), 'input')}",
        )
        result = function(*inputs, **self.values)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    # Errors and notes name the function's file, and the tracer inspects the function as the user's code.
    forward.__code__ = forward.__code__.replace(co_filename=function.__code__.co_filename)
    members = {
        "__init__": __init__,
        "forward": forward,
        "__module__": function.__module__,
        "__doc__": function.__doc__,
        "__qualname__": function.__qualname__,
        _KEYWORDS: None if takes_all else frozenset(keywords),
    }
    return type(name, (), members)
