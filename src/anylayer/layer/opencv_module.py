"""Redirect OpenCV's registration of layers to anylayer while a layers file is executed.

OpenCV itself would end the process where a type is registered twice, and keep every layer until the process ends.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_REGISTER = ("dnn_registerLayer", "registerLayer")
_UNREGISTER = ("dnn_unregisterLayer", "unregisterLayer")
_NAMES = ("cv2", "cv2.dnn")
_ABSENT = object()


class StandIn(ModuleType):
    """`cv2` where OpenCV is not installed: layers can be registered, anything else is refused when it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"OpenCV is not installed, so there is no {self.__name__}.{name}: pip install opencv-python"
        )


@contextmanager
def registering(register: Callable[[str, Any], None], unregister: Callable[[str], None]) -> Iterator[None]:
    """Make `cv2.dnn_registerLayer(type, class)` and its other spellings call `register`.

    Where OpenCV is not installed, a stand-in for the module cv2 is imported in its place.
    """
    before: dict[str, Any] = {name: sys.modules.get(name, _ABSENT) for name in _NAMES}
    module = installed()
    if module is None:
        module = StandIn("cv2")
        dnn = StandIn("cv2.dnn")
        vars(module).update(__path__=[], dnn=dnn)
        sys.modules.update({"cv2": module, "cv2.dnn": dnn})
    places = [place for place in (module, getattr(module, "dnn", None)) if place is not None]
    names = (*_REGISTER, *_UNREGISTER)
    originals = [(place, name, vars(place).get(name, _ABSENT)) for place in places for name in names]
    for place in places:
        for name in names:
            setattr(place, name, register if name in _REGISTER else unregister)
    try:
        yield
    finally:
        for place, name, function in originals:
            if function is _ABSENT:
                delattr(place, name)
            else:
                setattr(place, name, function)
        if isinstance(module, StandIn):
            for name, module_before in before.items():
                if module_before is _ABSENT:
                    sys.modules.pop(name, None)
                else:
                    sys.modules[name] = module_before


def installed() -> ModuleType | None:
    """Return OpenCV's module, or None where it cannot be imported."""
    try:
        return importlib.import_module("cv2")
    except Exception:  # not installed, or a shared library that it needs is missing
        return None
