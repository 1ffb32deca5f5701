"""The parts of anylayer's base class for declared fields, in NumPy only, which generated modules contain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_MISSING: Any = object()


def _need(condition: object, message: str, kind: type[Exception] = ValueError) -> None:
    """Raise an error with this message unless the condition holds."""
    if not condition:
        raise kind(message)


def _field(number: int, kind: str, default: Any = _MISSING, *, repeated: bool = False, **how: Any) -> Any:
    """Declare a parameter of a layer."""
    return _Field(kind, default, repeated, how.get("least"), how.get("most"))


class _Field:
    """A declared parameter."""

    def __init__(self, kind: str, default: Any, repeated: bool, least: Any, most: Any) -> None:
        self.kind, self.default, self.repeated, self.least, self.most = kind, default, repeated, least, most

    def read(self, name: str, params: dict[str, Any]) -> Any:
        """Return the value of the field, with its type."""
        if name not in params:
            if self.repeated and self.default is _MISSING:
                return ()
            _need(self.default is not _MISSING, f"parameter '{name}' is missing")
            return self.default
        value = params[name]
        if self.repeated:
            return tuple(map(self._one, value if isinstance(value, (list, tuple)) else [value]))
        return self._one(value)

    def _one(self, value: Any) -> Any:
        if self.kind in ("float", "double"):
            return float(np.float32(value)) if self.kind == "float" else float(value)
        if self.kind == "bool":
            return value in (1, "true")
        return str(value) if self.kind == "string" else value if self.kind == "any" else int(value)


class _Layer:
    """The base class of layers with declared fields. `forward` takes one array per input."""

    takes_arrays = True

    def __init__(self, params: dict[str, Any], blobs: Sequence[Any]) -> None:
        self._given, self._blobs = params, blobs
        for cls in reversed(type(self).__mro__):
            for name, declared in vars(cls).items():
                if isinstance(declared, _Field):
                    value, low, high = declared.read(name, params), declared.least, declared.most
                    _need(low is None or value >= low, f"{name} must be at least {low}, got {value}")
                    _need(high is None or value <= high, f"{name} must be at most {high}, got {value}")
                    setattr(self, name, value)
        self.setup()

    def setup(self) -> None:
        """Check the parameters."""

    def has(self, name: str) -> bool:
        """Return whether the network writes a field."""
        return name in self._given

    def note(self, text: str) -> None:
        """Do nothing: notes are for the generator."""

    def blob(self, index: int, shape: Sequence[int], *_: Any, **__: Any) -> Any:
        """Return weight number `index`."""
        _need(index < len(self._blobs), f"blob {index} is missing")
        return np.reshape(self._blobs[index], tuple(shape))
