"""Write the trained parameters of a generated module back into the file that the network was read from."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.convert.folder import write_contents
from anylayer.convert.generation import candidates, expected_outputs, run_test, structure
from anylayer.convert.job import Job
from anylayer.convert.parameters import Key, Origins, State, StoredWeight, origins
from anylayer.errors import AnyLayerError, FileError, InputError, nearest, need, some
from anylayer.generators import pytorch
from anylayer.generators.pytorch.module import write_module
from anylayer.generators.pytorch.weights import to_safetensors
from anylayer.network import Array, Network
from anylayer.source import Source

_SAME = 1e-6
"""The largest relative difference of a constant that another processor may compute."""
_COUNTER = "num_batches_tracked"
"""The end of the name of torch's counters of batches, which change no output."""


_PREFIXES = ("module.", "_orig_mod.")
"""What DataParallel and torch.compile put before the names of a module's parameters."""


@dataclass(slots=True)
class WrittenWeights:
    """The result of `write_weights`: the file, the number of changed weights, the comparison, and notes."""

    file: Path
    changed: int
    total: int
    report: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, for JSON."""
        return {**asdict(self), "file": str(self.file)}


@dataclass(frozen=True, slots=True)
class NewWeights:
    """A network with the state of its trained module: the job that generated the module, what a generator gets,
    and the new weights by the stored ones' keys. `notes` are for the user."""

    job: Job
    source: Source
    state: State
    weights: Mapping[Key, tuple[StoredWeight, Array]]
    total: int
    notes: list[str]


def new_weights(job: Job, outputs: Mapping[str, str], state: State) -> NewWeights:
    """Return the new weights of a network from the state of its trained module.

    Raises InputError for a state of another module, and for a parameter that has changed and that the file does
    not store.
    """
    job, source, written = _write(job, outputs)
    _need_parameters(written, state)
    origin = origins(job.network, lambda n: _state(replace(job, network=n).source(outputs)), written)
    arrays = {key: np.array(w.values) for key, w in origin.weights.items()}
    targets: dict[str, Array] = {}
    for name, values in written.items():
        if name in origin.moves:
            targets[name] = _merge(origin, name, values, state[name])
        elif name not in origin.divided and not name.endswith(_COUNTER):
            _need_same(name, np.isclose(state[name], values, rtol=_SAME, atol=0).all())
    notes = _put_divided(origin, arrays, written, state)
    for name, values in targets.items():
        origin.moves[name].put(arrays, values)
    _need_agreement(origin, arrays, targets)
    new = {k: (w, arrays[k]) for k, w in origin.weights.items() if not np.array_equal(w.values, arrays[k])}
    moved = {key for move in (*origin.moves.values(), *origin.divided.values()) for key in move.keys}
    others = [str(w) for key, w in origin.weights.items() if key not in moved and key not in origin.divisors]
    if others:
        notes.append(f"{some(others)}: not a parameter of the module, so it stays as it is")
    return NewWeights(job, source, state, new, len(origin.weights), notes)


def _write(job: Job, outputs: Mapping[str, str]) -> tuple[Job, Source, State]:
    """Return the job that generates the module as `generate` does, with its source and its state."""
    job = replace(job, by_node=pytorch.RULES, calls=replace(job.calls, choosable=False))
    *others, last = candidates(job, True)
    for candidate in others:
        try:
            source = structure(candidate, pytorch, outputs)
            return candidate, source, _state(source)
        except AnyLayerError:
            continue
    source = structure(last, pytorch, outputs)
    return last, source, _state(source)


def _state(source: Source) -> State:
    return write_module(source).state


def _need_parameters(written: State, state: State) -> None:
    """Raise InputError if the state is not that of the module."""
    advice = "give the state of the module that `anylayer generate --for pytorch` writes for this network"
    counters = tuple(n for n in (*written, *state) if n.endswith(_COUNTER))
    for prefix in _PREFIXES:
        if state and all(name.startswith(prefix) for name in state) and written.keys().isdisjoint(state):
            attribute = prefix.removesuffix(".")
            raise InputError(
                f"all names begin with '{prefix}': this is the state of a wrapped module. Save that of the module "
                f"inside it: torch.save(module.{attribute}.state_dict(), file)"
            )
    for name in state:
        exists = name in written or name in counters
        hint = nearest(name, written)
        need(exists, f"the module has no '{name}'{hint}{'' if hint else ';'} {advice}", InputError)
    for name, want in written.items():
        if name in counters:
            continue
        need(name in state, f"the state lacks '{name}'; {advice}", InputError)
        values = state[name]
        rule = f"'{name}' has shape {values.shape} in the state, expected {want.shape}; {advice}"
        need(values.shape == want.shape, rule, InputError)
        rule = f"'{name}' is {values.dtype} in the state, expected {want.dtype}; {advice}"
        need(values.dtype.kind == want.dtype.kind, rule, InputError)
        rule = f"'{name}' holds NaN or infinity: the training has diverged"
        need(np.isfinite(values).all() or not np.isfinite(want).all(), rule, InputError)


def _need_same(name: str, same: object) -> None:
    rule = (
        f"'{name}' has changed in training, but the file does not store it: it is a constant, or computed from "
        f'the weights. Train without it: module.get_parameter("{name}").requires_grad_(False)'
    )
    need(same, rule, InputError)


def _merge(origin: Origins, name: str, generated: Array, values: Array) -> Array:
    """Return the values of a parameter, with the file's own where training has not changed them."""
    move = origin.moves[name]
    changed = values.reshape(-1) != generated.reshape(-1)
    if move.lost is not None:
        _need_same(name, not (changed & move.lost).any())
    base = move.take({key: w.values for key, w in origin.weights.items()})
    return np.where(changed, values.reshape(-1), base)


def _put_divided(origin: Origins, arrays: Mapping[Key, Array], written: State, state: State) -> list[str]:
    """Write parameters that a stored number divides, with 1 for the number. Return a note for these numbers."""
    changed = {
        key
        for name in origin.divided
        if not np.array_equal(state[name], written[name])
        for key in origin.divisors_of(name)
    }
    for name, move in origin.divided.items():
        if changed.intersection(origin.divisors_of(name)):
            move.put(arrays, state[name])
    ones = [str(origin.weights[key]) for key in origin.divisors if key in changed and arrays[key] != 1]
    for key in changed:
        arrays[key][...] = 1
    return [f"{some(ones)}: now 1, because the module has the quotients"] if ones else []


def _need_agreement(origin: Origins, arrays: Mapping[Key, Array], targets: State) -> None:
    """Raise InputError if parameters that are one weight in the file have got different values."""
    for name, values in targets.items():
        move = origin.moves[name]
        actual = move.take(arrays)
        wrong = actual != values if move.lost is None else (actual != values) & ~move.lost
        if wrong.any():
            same = [n for n, m in origin.moves.items() if n != name and set(m.keys) & set(move.keys)]
            weights = some([str(origin.weights[key]) for key in move.keys])
            raise InputError(
                f"'{name}' and {some([repr(n) for n in same])} are one weight in the file ({weights}), and have "
                "got different values in training. Tie them in the module"
            )


def patch(network: Network, file: Path, weights: Mapping[Key, tuple[StoredWeight, Array]]) -> Array:
    """Return the bytes of a weights file with new values in place of the stored ones.

    Raises FileError for a weight whose values the file does not hold as they are.
    """
    data = np.fromfile(file, np.uint8)
    for stored, values in weights.values():
        blob = stored.values
        place = _place(blob, len(data))
        view = None if place is None else np.ndarray(blob.shape, "<f4", data.data, place, blob.strides)
        if view is None or not np.array_equal(view, blob, equal_nan=True):
            raise FileError(
                f"{stored} is not stored as plain float32 numbers (but compressed, as text, or with another "
                "type), so it cannot be replaced. Save the file again without compression, as float32",
                str(file),
            )
        view[...] = values
    return data


def _place(blob: Array, size: int) -> int | None:
    """Return the position of an array in the mapped file of this size that it is a view of; None for a copy."""
    base: object = blob
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    if not isinstance(base, mmap.mmap) or len(base) != size:
        return None
    start = np.frombuffer(base, np.uint8).__array_interface__["data"][0]
    return int(blob.__array_interface__["data"][0] - start)


def compare(
    result: NewWeights,
    network: Network,
    outputs: Mapping[str, str],
    inputs: Mapping[str, Array] | None,
    file: Path,
) -> tuple[list[str], list[str]]:
    """Run the trained module on inputs, and compare it with the network that was read from the new file.

    Returns the lines that the comparison printed, and notes. Raises ConversionError where they differ.
    """
    expected, notes = expected_outputs(replace(result.job, network=network), result.source, outputs, inputs)
    project = pytorch.generate(result.source, expected)
    need(not project.missing, f"the comparison needs {project.missing}", InputError)
    project.files["model.safetensors"] = to_safetensors(result.state)
    with tempfile.TemporaryDirectory() as folder:
        for name, contents in project.files.items():
            write_contents(Path(folder), name, contents)
        return run_test(
            project, Path(folder), str(file), "the new file does not compute what the module does"
        ), notes
