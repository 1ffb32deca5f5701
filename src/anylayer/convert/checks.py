"""Checks: the comparison of one output of a file with the source. regimes.py has the rules by which it passes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anylayer.compile.noise import LITTLE, real_data
from anylayer.errors import some
from anylayer.network import Array
from anylayer.numerics import difference_text, largest_error, rms_error, rms_scale, scale_of, tells_enough
from anylayer.source import Run, Written

_MAX_MOVED = 1000
"""The largest number of rows that may be exchanged."""


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """The comparison of one output of the file with the source.

    `error` is the largest absolute difference, `scale` the largest absolute value of the source's output; in a
    file of int8 they are root mean squares (rule "rms"). `ok` is error <= tolerance * scale. `rule` names the rule
    of regimes.REGIMES that accepts the output, or the last one that rejects it. `note` says what differs besides
    values: a shape, or that the output is missing.
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
    rule: str = "share"
    tells: bool = True
    part: str = ""
    of: str = ""
    at: int = 0

    def __str__(self) -> str:
        if self.rule == "rms" and not self.note:
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
    def accepted_by(self) -> str:
        """The rule that accepted the output, and its tolerance: "share (1e-05)"."""
        return self.rule + (f" ({self.tolerance:.3g})" if math.isfinite(self.tolerance) else "")

    @property
    def limit(self) -> str:
        """The tolerance as the end of a sentence about an output that differs."""
        scale = "RMS of the values" if self.rule == "rms" else "largest value"
        return f"the tolerance is {self.tolerance:g} of the {scale}"


def compare(name: str, want: Array, result: Array, tolerance: float, *, rms: bool = False) -> OutputCheck:
    """Compare an output of the file with the source's. NaN matches NaN, and an infinity matches itself.

    rms: whether to compare root mean squares in place of the largest values.
    """
    rule = "rms" if rms else "share"
    scale = rms_scale(want) if rms else scale_of(want)
    if want.shape != result.shape:
        note = f"shape {result.shape}, the source's is {want.shape}"
        return OutputCheck(name, math.inf, scale, tolerance, False, note, rule=rule)
    error = rms_error(result, want) if rms else largest_error(result, want)
    finite = want[np.isfinite(want)] if want.dtype.kind == "f" else want.ravel()[:0]
    spread = float(np.ptp(finite)) if finite.size > 1 else None
    tells, ok = tells_enough(want, tolerance * scale), error <= tolerance * scale
    return OutputCheck(name, error, scale, tolerance, ok, spread=spread, rule=rule, tells=tells)


def error_of_rows(want: Array, result: Array | None, tolerance: float) -> float:
    """Return the largest error of an output whose rows may be in another order than in the source.

    Rows of nearly equal rank may be exchanged. The rank is a column of which all values match in order; each row
    that moved is compared with the nearest row. Return infinity if there is no such column, if too many rows
    moved, or if two of them have the same nearest row.
    """
    if result is None or want.shape != result.shape or want.ndim < 2 or not want.size:
        return math.inf
    a, b = (x.reshape(-1, x.shape[-1]).astype(np.float64) for x in (want, result))
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


def run_file(run: Run, written: Written, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run a file on inputs by their names in the source, and return its outputs by their names in the file."""
    feed = {}
    for name, array in inputs.items():
        transposed = _as_written(name, array, written)
        dtype = written.io if written.io is not None and array.dtype == np.float32 else array.dtype
        feed[written.renamed.get(name, name)] = np.asarray(transposed, dtype, order="C")
    return run(feed)


def of_file(name: str, results: Mapping[str, Array], written: Written) -> Array | None:
    """Return an output of a file by its name in the source, None where the file has no such output."""
    return results.get(written.outputs.get(name) or written.renamed.get(name, name))


def _as_written(name: str, array: Array, written: Written) -> Array:
    """Return an input or output of the source in the order of axes that it has in the file."""
    permutation = written.transposed.get(name)
    return array if permutation is None else array.transpose(permutation)


def output_checks(
    want: Mapping[str, Array], results: Mapping[str, Array], written: Written, tolerance: float
) -> list[OutputCheck]:
    """Return a check per output of the source, by the rule "share", or "rms" for a file of int8."""
    checks = []
    for name, array in want.items():
        output = of_file(name, results, written)
        if output is None:
            note = f"the file has no such output; it has {', '.join(results)}"
            checks.append(OutputCheck(name, math.inf, 0.0, tolerance, False, note))
        else:
            rms = written.precision == "int8"
            checks.append(compare(name, _as_written(name, array, written), output, tolerance, rms=rms))
    return checks


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
