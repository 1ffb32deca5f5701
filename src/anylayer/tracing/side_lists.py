"""Lists to which one side of an if appends: `if mask.any(): parts.append(x[mask])`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import tracing
from anylayer.graph.place import refusal
from anylayer.graph.symbolic import depends_on_data
from anylayer.network import Array
from anylayer.tracing.array import TracedArray, selected
from anylayer.tracing.grown import Growing, GrownList


class SideList(GrownList):
    """A list to which one side of an if appends rows, as to a GrownList, or arrays of a size that depends on data.

    present: for each of these arrays, the condition under which it is in the list, or None for always.
    """

    __slots__ = ("present",)

    def __init__(self, before: Sequence[Any]) -> None:
        Growing.__init__(self)
        self.before, self.array = list(before), None
        self.present: list[Array | None] = []

    def append(self, x: Any) -> None:
        is_part = type(x) is TracedArray and bool(x.ndim) and depends_on_data(x.shape[0])
        if not is_part and not self.present:
            super().append(x)
            return
        if type(x) is not TracedArray or not x.ndim or (self.entries and not self.present):
            raise refusal(
                "the elements that a side of an if appends to a list differ in kind; append arrays of a size that "
                "depends on data, or others"
            )
        run = tracing.decisions.current_run.get()
        if run is not None:
            run.appended[id(x._base())] = x._base()
        self.add(x, None, None)
        self.present.append(self.condition())

    def together(self) -> tuple[Array, Array | None]:
        if self.present:
            self._refuse()
        return super().together()

    def join(self, function: Any, axis: int = 0) -> Any:
        if not self.present:
            return super().join(function, axis)
        rows, mask = super().together()
        if axis or not (function is np.concatenate or (function is np.vstack and rows.ndim > 1)):
            self._refuse()
        rows = rows if mask is None else selected(rows[mask])
        return np.concatenate([*self.before, rows]) if self.before else rows

    def _flags(self) -> Any:
        """Return which of the arrays are in the list."""
        graph = tracing.running_graph()
        flags = [TracedArray(graph, np.array(c is None)) if c is None else c for c in self.present]
        return np.stack([*flags, TracedArray(graph, np.array(False))])

    def parts(self) -> Any:
        """Return an array with one number for each element of the list."""
        if not self.present:
            return self.made()
        flags = self._flags()
        numbers = TracedArray(flags._graph, np.arange(len(self.before) + flags.shape[0]))
        return selected(numbers[np.concatenate([np.ones(len(self.before), bool), flags])])

    def __bool__(self) -> bool:
        if not self.present:
            return super().__bool__()
        return bool(self.before) or tracing.decisions.truth(self._flags().any())
