"""Whether the engines that are measured give the same answers, and which of them count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from anylayer.errors import AnyLayerError, EngineError
from anylayer.network import Array

_TOLERANCE = 1e-4


Answers = Mapping[str, Array]
Run = Callable[[Sequence[Array]], Answers]


def agree(got: Answers, want: Answers) -> bool:
    """Return whether outputs are equal: floats to 1e-4 of the largest value of each, NaN where the other is."""
    return not any(_difference(got[name], array) for name, array in want.items())


def _difference(got: Array, want: Array) -> str:
    """Return how an output differs; "" where it does not."""
    if got.shape != want.shape:
        return f"has shape {got.shape}, expected {want.shape}"
    if want.dtype.kind != "f":
        count = int(np.count_nonzero(got != want))
        return f"differs in {count} of {want.size} values" if count else ""
    finite = np.isfinite(want)
    scale = float(np.abs(want, where=finite, out=np.zeros(want.shape, want.dtype)).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        off = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0, np.abs(got - want))
    worst = float(np.max(off, initial=0.0))
    return "" if worst <= _TOLERANCE * max(scale, 1e-6) else f"is off by {worst:.3g} of {scale:.3g}"


def trusted(runs: Mapping[str, Run], arrays: Sequence[Array], definition: Run) -> tuple[list[str], dict[str, str]]:
    """Return the engines whose answers count, and how each of the others differs. One that stops is in neither.

    Where the engines do not agree, the layers in NumPy decide. Where a change of the inputs in their last bits
    moves the answers as far, a jump (a threshold, a sort) has made the difference: then all engines count. Raises
    the first EngineError where all engines stop.
    """
    answers: dict[str, Answers] = {}
    errors: list[EngineError] = []
    for name, run in runs.items():
        try:
            answers[name] = run(arrays)
        except EngineError as error:
            errors.append(error)
    if not answers:
        raise errors[0]
    first = next(iter(answers.values()))
    if all(agree(found, first) for found in answers.values()):
        return [*answers], {}
    wrong = _judged(answers, arrays, definition)
    if len(wrong) == len(answers) or _jumps(runs, answers, arrays):
        return [*answers], {}
    return [name for name in answers if name not in wrong], wrong


def _judged(answers: Mapping[str, Answers], arrays: Sequence[Array], definition: Run) -> dict[str, str]:
    """Return the engines that differ from the layers in NumPy, each with how it does."""
    try:
        want = definition(arrays)
    except AnyLayerError:
        return {}
    wrong: dict[str, str] = {}
    for name, found in answers.items():
        differences = ((output, _difference(found[output], array)) for output, array in want.items())
        output, text = next(((o, t) for o, t in differences if t), ("", ""))
        if text:
            wrong[name] = f"output '{output}' {text}, compared with NumPy"
    return wrong


def _jumps(runs: Mapping[str, Run], answers: Mapping[str, Answers], arrays: Sequence[Array]) -> bool:
    """Return whether inputs changed in their last bits change an engine's own answers."""
    noise = np.random.default_rng(1)
    for name, found in answers.items():
        moved = [
            (x * (1 + 1e-6 * noise.standard_normal(x.shape))).astype(x.dtype) if x.dtype.kind == "f" else x
            for x in arrays
        ]
        if not agree(runs[name](moved), found):
            return True
    return False
