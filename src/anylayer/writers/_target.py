"""What builders of targets share: why an operator cannot be expressed, consumers, notes about the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from anylayer.graph import Op, Value

T = TypeVar("T")


class NotInTarget(Exception):
    """The reason why a target cannot express an operator, as a noun phrase."""


def require(condition: object, why: str = "") -> None:
    """Raise NotInTarget unless the condition holds."""
    if not condition:
        raise NotInTarget(why)


def present(value: T | None, why: str = "an absent input") -> T:
    """Return the value. Raise NotInTarget for None."""
    if value is None:
        raise NotInTarget(why)
    return value


class Consumers:
    """The operators that read each value, and the values that are outputs of the graph."""

    def __init__(self, ops: Iterable[Op], outputs: Iterable[Value]) -> None:
        self._reads: dict[Value, list[Op]] = {}
        self._outputs = list(outputs)
        for op in ops:
            for v in op.inputs:
                if v is not None:
                    self._reads.setdefault(v, []).append(op)

    def __contains__(self, value: Value) -> bool:
        """Return whether an operator reads a value, or it is an output."""
        return self.count(value) > 0

    def of(self, value: Value) -> list[Op]:
        """Return the operators that read a value."""
        return list(dict.fromkeys(self._reads.get(value, ())))

    def count(self, value: Value) -> int:
        """Return how often operators read a value, and how often it is an output."""
        return len(self._reads.get(value, ())) + self._outputs.count(value)

    def only(self, value: Value) -> Op | None:
        """Return the operator that reads a value, if it is read once and is not an output."""
        return self._reads[value][0] if value in self._reads and self.count(value) == 1 else None


def renamed_output_notes(outputs: Mapping[str, str]) -> list[str]:
    """Return a note for each output whose name in the file differs. `outputs` maps its name to the file's."""
    return [
        f"output '{ours}' is called '{theirs}' in the file, because an input has its name"
        for ours, theirs in outputs.items()
    ]


def why_not_run(kept: Iterable[Op]) -> str:
    """Return why no runtime here can run a file with these kept layers; "" if all of them have a body."""
    types = dict.fromkeys(op.op for op in kept if op.body is None)
    return f"nothing here computes the kept layers: {', '.join(types)}" if types else ""
