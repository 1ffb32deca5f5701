"""The result of `identify`: which meanings of a network's layers reproduce given numbers, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anylayer.errors import some, wording
from anylayer.inspect.meanings import FieldChange
from anylayer.layer import Layer

_LAYER_CLASS = """
import {module}


@anylayer.layer("{type}")
class {type}({module}.{name}):
    def prepare(self, node, dialect):
        super().prepare(node, {dialect!r})
"""
"""The class in a layers file by which a type means what it means in a dialect, whatever the network's is."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A choice of meanings that does not reproduce a blob: its `text`, and the largest difference or the reason.

    `error` is relative to the blob's largest value, and infinite where `reason` says why nothing was compared.
    """

    text: str
    error: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A choice of meanings that reproduces the expected blobs.

    `dialect` is the one to read the network with, or None. `types` are the dialects of layer types that need
    another one than `dialect`. `changes` are values that the file leaves out, by layer type.
    """

    dialect: str | None
    types: Mapping[str, str | None] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Identification:
    """The result of `identify`.

    `explanations` are the choices of meanings that reproduce all expected blobs, the simplest first; [] if there
    is none. `tried` are the dialects that change what a layer of the network means; None stands for no dialect.
    `reproduced` are the expected blobs that were reproduced, with their errors relative to their largest values.
    `first` is the first expected blob that no choice reproduces, `place` its layer, and `attempts` are the choices
    that were left there, the closest first. `before` are the blobs between it and those that are reproduced.
    `writes` are the values that the first explanation needs in the file, and `classes` the classes of its types,
    each with its dialect. `notes` are for the user.
    """

    tried: list[str | None]
    explanations: list[Explanation] = field(default_factory=list)
    reproduced: dict[str, float] = field(default_factory=dict)
    first: str = ""
    place: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    writes: list[FieldChange] = field(default_factory=list)
    classes: dict[str, tuple[type[Layer], str | None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether a choice of meanings reproduces all expected blobs."""
        return bool(self.explanations)

    def joined(self, other: Identification) -> Identification:
        """Return the result of two readings of a file: the simplest explanations, else what `self` says."""
        if (other.dialects and not self.dialects) or (other.ok and not self.ok):
            other.tried[:0] = self.tried
            return other
        self.tried += other.tried
        self.explanations += other.explanations if other.dialects else []
        self.attempts += [] if other.ok else other.attempts
        return self

    @property
    def dialects(self) -> list[str | None]:
        """The dialects of which each alone reproduces the expected blobs; None stands for no dialect."""
        return [e.dialect for e in self.explanations if not e.types and not e.changes]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *(f"-> {remedy}" for remedy in self.remedies)])

    def lines(self) -> list[str]:
        """Return what was found, without the remedies."""
        lines = []
        if self.reproduced:
            worst = max(self.reproduced.values())
            blobs = some([f"'{name}'" for name in self.reproduced], 5)
            lines.append(f"reproduced: {blobs} (largest difference {worst:.1e} of the largest value)")
        if not self.ok:
            return [*lines, f"no meaning reproduces blob '{self.first}' of {self.place}"]
        lines.append(f"fits: {'; '.join(map(explanation_text, self.explanations))}")
        fitting = [e.dialect for e in self.explanations]
        others = [d or "no dialect" for d in self.tried if d not in fitting]
        return [*lines, f"does not fit: {', '.join(others)}"] if others else lines

    @property
    def layers_file(self) -> str:
        """The layers file for layer types that need another dialect than the network's; "" where none does."""
        parts = [
            _LAYER_CLASS.format(type=type_, module=cls.__module__, name=cls.__name__, dialect=dialect)
            for type_, (cls, dialect) in self.classes.items()
        ]
        return "import anylayer\n" + "".join(parts) if parts else ""

    @property
    def remedies(self) -> list[str]:
        """What to do so that anylayer computes the expected blobs, or so that the layer is found that does not."""
        if not self.explanations:
            inner = some([f"'{name}'" for name in self.before], 5)
            text = f"to find the layer, expect inner blobs, too: {inner}"
            return [text] if self.before else ["define the layer in a layers file, or correct its parameters"]
        dialect, advice = self.explanations[0].dialect, []
        if dialect is not None:
            advice.append("read the network with " + wording(f"dialect={dialect!r}", f"--dialect {dialect}"))
        if self.classes:
            how = wording("layers=['layers.py']", "-l layers.py")
            advice.append(f"read the network with {how}, where layers.py is:\n{self.layers_file}")
        texts: dict[str, list[str]] = {}
        for change in self.writes:
            texts.setdefault(change.text, []).append(f"'{change.node.name}'")
        advice += [f"write {text} into the parameters of {some(names, 20)}" for text, names in texts.items()]
        return advice or ["no dialect is needed"]


def explanation_text(explanation: Explanation) -> str:
    """Return an explanation as text: "mobilenet-yolo, Reorg as in ascend"."""
    parts = [explanation.dialect or "no dialect"]
    parts += [f"{t} as in {d}" if d else f"{t} without a dialect" for t, d in explanation.types.items()]
    parts += [f"{type_} with {text}" for type_, text in explanation.changes.items()]
    return ", ".join(parts)
