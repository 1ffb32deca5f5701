"""Layer types that differ from a base class only in a name, a docstring and a function or a number."""

from __future__ import annotations

from typing import Any

from anylayer.layer import Layer, layer


def define(name: str, base: type[Layer], summary: str, details: str, **body: Any) -> None:
    """Register layer type `name`: a subclass of `base` with the attributes `body`, in the module of `base`.

    The docstring consists of `summary` and `details`. The part of `name` before its last point is not in the name
    of the class.
    """
    doc = f"{summary}\n\n    {details}\n    "
    members = {"__doc__": doc, "__module__": base.__module__, **body}
    layer(name)(type(name.rpartition(".")[2], (base,), members))
