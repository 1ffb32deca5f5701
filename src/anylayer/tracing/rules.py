"""Importing this module enters the rules of every function, ufunc and attribute."""

from anylayer.tracing import (
    arithmetic,
    attributes,
    choosing,
    creation,
    indexing,
    joining,
    linear,
    operators,
    powers,
    reductions,
    shapes,
    sorting,
    ufuncs,
    writing,
)

__all__ = [
    "arithmetic",
    "attributes",
    "choosing",
    "creation",
    "indexing",
    "joining",
    "linear",
    "operators",
    "powers",
    "reductions",
    "shapes",
    "sorting",
    "ufuncs",
    "writing",
]
