"""The state that Python keeps between two iterations of a loop, other than recorded arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import CellType, FrameType, FunctionType
from typing import Any

from anylayer.graph.ir import Value
from anylayer.graph.sized import elements_of
from anylayer.graph.symbolic import Size, SizeReal
from anylayer.tracing.array import Composite, Selection, TracedArray
from anylayer.tracing.grown import GrownList, TracedList, Unreadable, heap_of
from anylayer.tracing.number_lists import NumberList
from anylayer.tracing.python_numbers import PythonNumber
from anylayer.tracing.reach import Reach
from anylayer.tracing.state import Snapshot

OWN_PREFIX = "_anylayer_"
"""How the names of variables begin that changed code has in addition: see changed_code."""
_RECORDED = "a recorded array"


class LoopState(Snapshot):
    """The values of everything that the code of a frame can reach: local variables, closures and globals.

    Recorded arrays are equal to each other. `arrays` are all arrays of which these are views, by id. `sizes` holds
    the sizes that depend on data, which two iterations name differently.
    """

    def __init__(self, frame: FrameType, variables: Mapping[str, Any]) -> None:
        variables = {n: x for n, x in variables.items() if not n.startswith(OWN_PREFIX)}
        self.sizes: dict[str, Any] = {}
        self.arrays: dict[int, TracedArray] = {}
        self.variables = set(variables)
        closure = tuple(CellType() for _ in frame.f_code.co_freevars)
        reach = Reach(FunctionType(frame.f_code, frame.f_globals, closure=closure))
        grown = {name: x for name, x in variables.items() if issubclass(type(x), TracedList)}
        for name, x in variables.items():
            if name not in grown:
                reach.add(name, x)
        super().__init__(reach)
        self.is_complete = reach.is_complete
        for name, x in grown.items():
            self._add_array(x)
            self._seen[id(x)] = x  # keeps the object, so that no other gets its id
            self.values[name] = id(x)

    def take(self, name: str, x: Any) -> None:
        """Record a value and the values inside it."""
        if type(x) in (Size, SizeReal):
            self.sizes[name] = x
        elif type(x) is PythonNumber:
            self.values[name] = x.kind, x.array._value
        elif type(x) is TracedArray:
            self.arrays[id(x._base())] = x._base()
            content = x._content
            const = content.const if isinstance(content, Value) else content
            elements = None if const is None else elements_of(const)
            self.values[name] = (_RECORDED,)
            if elements is not None:
                for i, e in enumerate(elements):
                    self.take(f"{name}[{i}]", e)
            elif const is not None:
                self.values[name] = _RECORDED, const.shape, const.dtype, const.tobytes()
        elif issubclass(type(x), Selection):
            self.values[name] = (_RECORDED,)
        elif (heap := heap_of(x)) is not None:
            self._add_array(heap)
            self.values[name] = "reference", id(heap)
        elif issubclass(type(x), Composite):
            self.take(name, (x.real, x.imag))
        elif type(x) is Unreadable:
            self.values[name] = Unreadable, x.reason
        elif type(x).__module__.startswith("anylayer."):
            self._add_array(x)
            self._seen[id(x)] = x  # keeps the object, so that no other gets its id
            self.values[name] = id(x)
        elif type(x) is slice:
            self.take(name, (x.start, x.stop, x.step))
        else:
            super().take(name, x)

    def _hold(self, *_: object) -> None:
        """Do nothing: what a loop changes is not restored."""

    def _keep(self, *_: object) -> None:
        """Do nothing: what a loop changes is not restored."""

    def _add_array(self, x: Any) -> None:
        """Add the array of a list whose elements are replaced, or those of the attributes of objects."""
        if type(x) is NumberList:
            self.arrays[id(x.array)] = x.array
        columns = getattr(x.element if type(x) is GrownList else x, "columns", None)
        self.arrays.update({id(c): c for c in columns()} if columns is not None else {})

    def holds(self, x: object) -> bool:
        """Return whether this object itself refers to a container."""
        return id(x) in self._seen

    def changed(self, later: Snapshot) -> list[str]:
        """Return the names of the values, other than sizes, that differ in `later`.

        A new local variable is no difference, nor is a constant array to which something recorded is written.
        """
        sizes = later.sizes if isinstance(later, LoopState) else {}
        names = []
        for name in super().changed(later):
            a, b = self.values.get(name), later.values.get(name)
            recorded = b == (_RECORDED,) and type(a) is tuple and a[:1] == b
            if name in sizes or recorded:
                continue
            if name in self.values or variable_of(name) in self.variables:
                names.append(name)
        return names


def variable_of(name: str) -> str:
    """Return the variable that the name of a value begins with, as `steps` in `len(steps['n'])`."""
    match = re.match(r"(?:(?:len|type)\()?(\w+)", name)
    return match[1] if match else name
