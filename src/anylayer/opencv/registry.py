"""The layer classes that a program registers, as cv2.dnn_registerLayer does."""

from __future__ import annotations

from typing import Any

_registered: dict[str, list[Any]] = {}
_changes = 0


def dnn_registerLayer(type: str, layer: Any) -> None:
    """Use a class for the layers of a type: `__init__(params, blobs)`, `getMemoryShapes(inputs)`,
    `forward(inputs)`.

    It holds for networks that have not run yet, also for those that are already read. A class that is registered
    for a type again takes the place of the earlier one, until it is unregistered.
    """
    global _changes
    if not callable(layer):
        raise TypeError("class must be callable")
    _registered.setdefault(type, []).append(layer)
    _changes += 1


def dnn_unregisterLayer(type: str) -> None:
    """Remove the class that was registered last for a type. A type without one is ignored."""
    global _changes
    classes = _registered.get(type)
    if classes:
        classes.pop()
        _changes += 1
        if not classes:
            del _registered[type]


def registered() -> dict[str, Any]:
    """Return the class of each registered type."""
    return {type_: classes[-1] for type_, classes in _registered.items()}


def changes() -> int:
    """Return a number that is another one after each change of the registered classes."""
    return _changes
