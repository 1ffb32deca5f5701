"""Checks: the comparison of one output of a file with the source, and the rules by which an output may pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anylayer.compile.noise import LITTLE, real_data
from anylayer.errors import some
from anylayer.network import Array
from anylayer.numerics import difference_text, largest_error, rms_error, rms_scale, scale_of, tells_enough

_MIN_SPREAD = 0.01
"""An output whose values differ by less than this share of the largest one hardly shows mistakes."""
_MAX_MOVED = 1000
"""The largest number of rows that may be exchanged."""


@dataclass(frozen=True, slots=True)
class Regime:
    """A rule by which an output passes. `note` says what the rule means for the output `{}`, "" for the usual
    one."""

    name: str
    note: str = ""


SHARE = Regime("share")
"""No value differs by more than the tolerance, a share of the output's largest value."""
FLOOR = Regime(
    "floor",
    "all values of output '{}' are tiny in the range that its last operator can give, and no value differs by "
    "more than float32 rounds in this range",
)
"""No value differs by more than float32 rounds in the range of values that the operators can give at all."""
FLOAT64 = Regime(
    "float64",
    "output '{}' differs by more than the usual tolerance, but by no more than float32 itself rounds for these "
    "inputs (measured against float64): ",
)
"""No value differs by more than a few times the source in float32 differs from the source in float64."""
SELECTION = Regime(
    "selection",
    "output '{}' selects between values so close that rounding decides: the values before were compared "
    "with the source, and the selection with that of NumPy for the file's own values, up to their last digits",
)
"""The values before a discontinuous operator pass, and what follows is right for the values of the file."""
UNLIMITED = Regime("unlimited")
"""Any error: the output depends on a discontinuous operator, and the file computes in low precision."""


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """The comparison of one output of the file with the source.

    `error` is the largest absolute difference, `scale` the largest absolute value of the source's output; in a
    file of int8 they are root mean squares (`rms`). `ok` is error <= tolerance * scale, and `rule` is the rule by
    which the output passes. `note` says what differs besides values: a shape, or that the output is missing.
    `sizes` are the shapes of the inputs of this comparison where sizes are open. `spread` is the difference of the
    source's largest and smallest value, None where it is not known. `run_by` names the runtime that ran the file,
    where it is another one than the writer's RUNS. `tells` is false where the values hardly depend on the inputs,
    so that other values must be compared. `part` is "" for an output, "before" for a value inside the network that
    was compared because the output `of` after it tells little, and "alone" for an output of the last layers in a
    file of their own. `at` is the index of the set of inputs.
    """

    name: str
    error: float
    scale: float
    tolerance: float
    ok: bool
    note: str = ""
    sizes: Mapping[str, tuple[int, ...]] | None = None
    spread: float | None = None
    run_by: str = ""
    rms: bool = False
    rule: Regime = SHARE
    tells: bool = True
    part: str = ""
    of: str = ""
    at: int = 0

    def __str__(self) -> str:
        if self.rms and not self.note:
            return f"RMS of the differences {self.error:.3g}, RMS of the values {self.scale:.3g}"
        return self.note or difference_text(self.error, self.scale)

    @property
    def label(self) -> str:
        """The name, with the sizes, the runtime and the part that was compared."""
        shapes = (self.sizes or {}).items()
        shown = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes)
        part = {"before": f"before {self.of}", "alone": "its last layers alone, on noise"}.get(self.part, "")
        words = (self.name, shown and f"({shown})", self.run_by and f"in {self.run_by}", part and f"({part})")
        return " ".join(word for word in words if word)

    @property
    def title(self) -> str:
        """The name as the beginning of a sentence."""
        before = f"'{self.name}' before output '{self.of}'"
        alone = f"output '{self.name}' of its last layers alone, on noise,"
        return {"before": before, "alone": alone}.get(self.part, f"output '{self.name}'")

    @property
    def limit(self) -> str:
        """The tolerance as the end of a sentence about an output that differs."""
        return f"the tolerance is {self.tolerance:g} of the {'RMS of the values' if self.rms else 'largest value'}"


def compare(name: str, want: Array, got: Array, tolerance: float, *, rms: bool = False) -> OutputCheck:
    """Compare an output of the file with the source's. NaN matches NaN, and an infinity matches itself.

    rms: whether to compare root mean squares in place of the largest values.
    """
    scale = rms_scale(want) if rms else scale_of(want)
    if want.shape != got.shape:
        note = f"shape {got.shape}, the source's is {want.shape}"
        return OutputCheck(name, math.inf, scale, tolerance, False, note)
    error = rms_error(got, want) if rms else largest_error(got, want)
    finite = want[np.isfinite(want)] if want.dtype.kind == "f" else want.ravel()[:0]
    spread = float(np.ptp(finite)) if finite.size > 1 else None
    tells, ok = tells_enough(want, tolerance * scale), error <= tolerance * scale
    return OutputCheck(name, error, scale, tolerance, ok, spread=spread, rms=rms, tells=tells)


def error_of_rows(want: Array, got: Array | None, tolerance: float) -> float:
    """Return the largest error of an output whose rows may be in another order than in the source.

    Rows of nearly equal rank may be exchanged. The rank is a column of which all values match in order; each row
    that moved is compared with the nearest row. Return infinity if there is no such column, if too many rows
    moved, or if two of them have the same nearest row.
    """
    if got is None or want.shape != got.shape or want.ndim < 2 or not want.size:
        return math.inf
    a, b = (x.reshape(-1, x.shape[-1]).astype(np.float64) for x in (want, got))
    limit = tolerance * scale_of(want)
    ranks = [k for k in range(a.shape[1]) if np.ptp(a[:, k]) > limit and np.abs(a[:, k] - b[:, k]).max() <= limit]
    moved = np.abs(a - b).max(axis=1) > limit
    if not ranks or not 0 < moved.sum() <= _MAX_MOVED:
        return math.inf
    errors = np.abs(a[moved][:, None] - b[moved]).max(axis=2)
    pairs = errors.argmin(axis=1)
    if len({*pairs.tolist()}) != len(pairs):
        return math.inf
    return max(float(errors.min(axis=1).max(initial=0.0)), float(np.abs(a - b)[~moved].max(initial=0.0)))


def weak_checks(checks: Sequence[OutputCheck]) -> list[str]:
    """Return a note for each output whose comparison proves little, or that passed by another rule than usual."""
    notes = []
    for name in dict.fromkeys(c.name for c in checks if not c.part):
        own = [c for c in checks if c.name == name and not c.part]
        flat = next((c for c in own if c.spread is not None and c.spread < _MIN_SPREAD * c.scale), None)
        for rule in dict.fromkeys(c.rule for c in own if c.rule.note):
            notes.append(rule.note.format(name) + real_data() * rule.note.endswith(" "))
        deeper = [c for c in checks if c.of == name]
        if deeper or not any(c.tells for c in own):
            notes.append(about_deeper(name, deeper))
        elif flat is not None:
            notes.append(
                f"the values of output '{name}' span only {flat.spread:.3g}, and the largest is {flat.scale:.3g}, "
                f"which hides mistakes: {real_data()}"
            )
    return notes


def about_deeper(name: str, checks: Sequence[OutputCheck], argument: str = "verify") -> str:
    """Return a note about an output that tells little.

    checks: those of the values before it, and of its last layers alone. argument: the one that takes real inputs.
    """
    text = f"output '{name}' is {LITTLE}"
    before = list(dict.fromkeys(f"'{c.name}'" for c in checks if c.part == "before" and c.tells))
    alone = any(c.part == "alone" and c.tells for c in checks)
    if not before:
        return f"{text}, so nothing was compared: {real_data(argument)}"
    text += f": {some(before)} before it {'was' if len(before) == 1 else 'were'} compared"
    rest = "the layers after that alone, on noise" if alone else f"what follows was not; {real_data(argument)}"
    return f"{text}, and {rest}"
