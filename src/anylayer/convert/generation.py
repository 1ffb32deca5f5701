"""Generate a project in source code from a network, and run the project's own test before its folder appears."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.compile.noise import SCALES
from anylayer.convert.checks import about_deeper
from anylayer.convert.folder import need_replaceable, new_folder
from anylayer.convert.job import Job
from anylayer.convert.nodes import after_jumps
from anylayer.convert.parameters import StoredWeight, distinct, stored_weights
from anylayer.convert.regimes import MAX_ROUNDING, ROUNDING_FACTOR, other_digits, tolerance_of
from anylayer.errors import (
    AnyLayerError,
    ConversionError,
    FileError,
    InputError,
    adding_advice,
    need,
    need_name,
    wording,
)
from anylayer.generators import Expected, Project, Sample, Target, floors_of
from anylayer.graph.ir import Op
from anylayer.graph.operators import ARITHMETIC, ELEMENTWISE
from anylayer.network import Array
from anylayer.numerics import absolute_errors, difference, scale_of, tells_enough
from anylayer.source import Source, lost_effects

_LINES = 12
"""The number of lines at the end of a failed test's output that the error shows."""
_SAMPLES = 2
"""The largest number of sets of inputs that a project's own test has."""
_CHANGES = 16
"""The number of times that the values before a threshold are changed to find elements near it."""
_MAX_NEAR = 0.01
"""The largest share of an output's elements that may be near a threshold and are not compared."""
_NOT_IN_CMAKE = ';"\\'
"""Characters that CMake does not support in the path of a project."""
_SECONDS = 1800
"""Seconds that one command of a project's test may take."""


@dataclass(slots=True)
class Generation:
    """The result of `Net.generate`.

    `files` are the paths of the project's files. `report` has the lines that the project's test printed. If the
    test did not run, it is empty and `untested` says why. `commands` build and run the test in the folder. `notes`
    are for the user.
    """

    target: str
    folder: Path
    files: list[Path]
    report: list[str] = field(default_factory=list)
    untested: str = ""
    notes: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the generation as plain values, for JSON."""
        return {
            "target": self.target,
            "folder": str(self.folder),
            "files": [str(f) for f in self.files],
            "tested": not self.untested,
            "not_tested": self.untested,
            "commands": self.commands,
            "report": self.report,
            "notes": self.notes,
        }


def generate(
    job: Job,
    outputs: Mapping[str, str],
    target: Target,
    name: str,
    folder: Path,
    inputs: Mapping[str, Array] | None,
    *,
    test: bool = True,
    force: bool = False,
) -> Generation:
    """Write the project of a network as `folder`, after its own test has passed.

    outputs: public name to value. name: the target's. inputs: those that the test runs on; None stands for seeded
    noise, at two batch sizes where the batch is symbolic. test: whether to run the test. force: replace a folder
    that was edited.

    Raises what tracing and the target raise, InputError, FileError, and ConversionError where the test fails. Then
    no folder is left, and an older one stays as it was.
    """
    need_name(folder, utf8=True)
    need_replaceable(folder, force)
    job = replace(job, by_node=getattr(target, "RULES", ""), calls=replace(job.calls, choosable=False))
    notes = list(job.network.notes)
    for candidate in candidates(job, "batch" in target.OPTIONS):
        try:
            project = _project(candidate, outputs, target, inputs)
            break
        except AnyLayerError as error:
            if candidate is job:
                raise
            notes.append(f"the code is for one batch size: {error}")
    if test and not project.missing and "CMakeLists.txt" in project.files:
        wrong = [repr(c) for c in _NOT_IN_CMAKE if c in str(folder.absolute())]
        need(
            not wrong,
            f"CMake cannot build in a folder whose path has the character {' or '.join(wrong)}; give another "
            f"folder, or do not run the test ({wording('test=False', '--no-test')})",
            FileError,
        )
    with new_folder(folder, project.files, f"anylayer generate --for {name}", force) as temporary:
        untested = "not asked for" if not test else f"this needs {project.missing}" if project.missing else ""
        report = [] if untested else run_test(project, temporary, str(folder))
    files = [folder / file for file in project.files]
    commands = [shlex.join(["python" if w == sys.executable else w for w in words]) for words in project.test]
    return Generation(name, folder, files, report, untested, [*notes, *project.notes], commands)


def candidates(job: Job, symbolic: bool) -> list[Job]:
    """Return the jobs to try in order: with a symbolic batch size if the caller gives no sizes, then `job`."""
    if not symbolic or "batch" in job.options or job.sizes is not None:
        return [job]
    try:
        free = job.with_open_batch()
    except InputError:  # the inputs have no batch size in common
        return [job]
    return [free, job] if free.sizes is not None else [job]


def _project(job: Job, outputs: Mapping[str, str], target: Target, inputs: Mapping[str, Array] | None) -> Project:
    """Trace the network, and let the target write its project."""
    source = structure(job, target, outputs)
    kept_types = getattr(target, "kept_types", None)
    if kept_types is not None and (types := kept_types(source)):
        source = replace(job, calls=replace(job.calls, keep=frozenset(types))).source(outputs)
    options = {k: v for k, v in job.options.items() if k != "batch"}
    expected, notes = expected_outputs(job, source, outputs, inputs)
    project = target.generate(source, expected, **options)
    return replace(project, notes=[*project.notes, *notes, *lost_effects(source.nodes)])


def structure(job: Job, target: object, outputs: Mapping[str, str]) -> Source:
    """Return the traced network for a target.

    For one whose weights are trained, it does not depend on their values: those of a new network are 0 or 1, and
    would vanish.
    """
    source = job.source(outputs)
    if not getattr(target, "TRAINABLE", False):
        return source
    readers: dict[str, list[Op]] = {}
    constants = {name: t.node.name for t in source.nodes if t.body is None for name in t.node.outputs}
    for t in source.nodes:
        for name in {t.node.name, *(constants[i] for i in t.node.inputs if i in constants)}:
            readers.setdefault(name, []).extend(t.body.ops if t.body is not None else ())

    def is_operand(weight: StoredWeight) -> bool:
        """Return whether a weight is an operand of which each bit may matter, as of Equal: not a parameter."""
        x, ops = weight.values, readers.get(weight.node.name, ())
        if not x.ndim or not ops or not all(o in ELEMENTWISE and o.op != "PRelu" for o in ops):
            return not x.ndim
        is_number = x.size == len(weight.node.blobs) == 1 and (bool(x.any()) or all(o.op != "Add" for o in ops))
        return is_number or not any(o in ARITHMETIC for o in ops)

    def with_zeros(weight: StoredWeight) -> bool:
        return is_operand(weight) or (weight.values.size == 1 and not weight.values.any())

    network = distinct(job.network, is_operand)
    if any(w.values.size == 1 and not is_operand(w) for w in stored_weights(job.network).values()):
        inputs = job.noise(0, source.sizes)[:1]
        ours = _samples(job, outputs, inputs)[0].outputs
        for is_kept in (with_zeros, lambda w: w.values.size == 1 or is_operand(w)):
            theirs = _samples(replace(job, network=network), outputs, inputs)[0].outputs
            if not any(difference(theirs[name], x) for name, x in ours.items()):
                break
            network = distinct(job.network, is_kept)  # the zero of a divisor means something
    return source if network is job.network else replace(job, network=network).source(outputs)


def expected_outputs(
    job: Job, source: Source, outputs: Mapping[str, str], inputs: Mapping[str, Array] | None
) -> tuple[Expected, list[str]]:
    """Return what the project's test expects, and a note for each output that it cannot test.

    Without inputs, it is for noise of the first of some scales for which the outputs tell enough, or else of the
    first scale.
    """
    tolerance, answers = tolerance_of(source.graph), []
    floors = floors_of(dict(zip(source.outputs, source.graph.outputs)), source.graph.producers)
    for scale in SCALES if inputs is None else (1,):
        sets = [inputs] if inputs is not None else job.noise(0, source.sizes, scale)[:_SAMPLES]
        expected = Expected(_samples(job, outputs, sets), tolerance, floors)
        answers.append((expected, _untold(source, expected)))
        if not answers[-1][1]:
            break
    expected, notes = min(answers, key=lambda answer: bool(answer[1]))
    samples = [_with_jumps(job, source, outputs, sample, tolerance) for sample in expected.samples]
    return Expected(samples, tolerance, _with_rounding(floors, job, outputs, samples)), notes


def _with_jumps(job: Job, source: Source, outputs: Mapping[str, str], sample: Sample, tolerance: float) -> Sample:
    """Return a sample with marks for the elements that jump when the values before a discontinuous operator change
    by the tolerance. No more than a small share of an output is marked.
    """
    after, read = after_jumps(source)
    names = {name: value for name, value in outputs.items() if value in after}
    if not names or not read:
        return sample
    before, random = job.numpy(sample.inputs, {name: name for name in read}), np.random.default_rng(0)
    marks = {name: np.zeros(sample.outputs[name].shape, bool) for name in names}
    for _ in range(_CHANGES):
        changed = {
            name: (x + tolerance * scale_of(x) * random.uniform(-1, 1, x.shape)).astype(x.dtype)
            for name, x in before.items()
            if x.dtype.kind == "f"
        }
        for name, x in job.numpy(sample.inputs, names, {**before, **changed}).items():
            if x.shape == marks[name].shape:
                marks[name] |= absolute_errors(x, sample.outputs[name]) > MAX_ROUNDING * np.abs(x)
    return replace(sample, near={name: m for name, m in marks.items() if 0 < m.mean() <= _MAX_NEAR})


def _with_rounding(
    floors: Mapping[str, float], job: Job, outputs: Mapping[str, str], samples: Sequence[Sample]
) -> dict[str, float]:
    """Return the floors, or what float32 rounds in the samples where it is more: see regimes._by_float64. It is
    measured against float64, and against float64 with other last digits after each layer.

    Elements that float64 changes by more than the largest rounding are those on the other side of a threshold.
    """
    result = dict(floors)
    changes: list[Callable[[Array], Array]] = [np.asarray, partial(other_digits, noise=np.random.default_rng(0))]
    for sample, change in product(samples, changes):
        try:
            exact = job.in_float64(sample.inputs, outputs, change=change)
        except AnyLayerError:  # a layer of the user may not compute in float64
            continue
        for name, x in sample.outputs.items():
            if x.dtype == np.float32:
                errors = absolute_errors(x, exact[name])
                error = float(errors[errors <= MAX_ROUNDING * np.abs(x)].max(initial=0.0))
                result[name] = max(result[name], ROUNDING_FACTOR * error)
    return result


def _untold(source: Source, expected: Expected) -> list[str]:
    """Return a note for each output, except constants, that tells little in all samples of the test."""
    notes = []
    for name, value in zip(source.outputs, source.graph.outputs):
        arrays = [sample.outputs[name] for sample in expected.samples]
        steps = [max(expected.tolerance * scale_of(x), expected.floors[name]) for x in arrays]
        if value.const is None and not any(map(tells_enough, arrays, steps)):
            notes.append(about_deeper(name, (), "inputs"))
    return notes


def _samples(job: Job, outputs: Mapping[str, str], inputs: Sequence[Mapping[str, Array]]) -> list[Sample]:
    """Return the inputs with the outputs of the layers in NumPy."""
    with adding_advice(
        "The inputs of the test do not suit the network; give other inputs: " + wording("inputs={...}", "-i")
    ):
        return [Sample(arrays, job.numpy(arrays, outputs)) for arrays in inputs]


def run_test(
    project: Project, temporary: Path, place: str, failure: str = "the project's own test fails"
) -> list[str]:
    """Run the test of a project in its temporary folder, and return the lines that it printed.

    place, failure: what the ConversionError says if the test fails.
    """
    printed: list[str] = []
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    for command in project.test:
        try:
            completed = subprocess.run(
                command,
                cwd=temporary,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise ConversionError(f"the project's own test took more than {_SECONDS} s", place) from None
        printed = [*printed, *completed.stdout.splitlines()]
        if completed.returncode:
            last = [*completed.stdout.splitlines(), *completed.stderr.splitlines()][-_LINES:]
            raise ConversionError(f"{failure}:\n" + "\n".join(last), place)
    return printed
