"""Find the meaning of ambiguous layers by an example: the inputs and outputs of the program that a file is for.

The network runs in NumPy node by node. A `_World` is one choice of a meaning per layer type, with the values that
it gives. A node splits a world where its meanings give different values, and an expected blob removes the worlds
that do not reproduce it. A value that several worlds share is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.compile.inputs import input_arrays, needed_nodes
from anylayer.errors import AnyLayerError, DialectError, InputError, nearest, need, some
from anylayer.inspect.identification import Attempt, Explanation, Identification, explanation_text
from anylayer.inspect.meanings import Meaning, Meanings
from anylayer.network import Array, Node
from anylayer.numerics import DEEP_TOLERANCE, TOLERANCE, largest_error, scale_of

if TYPE_CHECKING:
    from anylayer.api import Net

MAX_WORLDS = 64
"""The largest number of choices of meanings that are followed at once."""
MAX_CHANGED_TYPES = 2
"""Layer types in which values are changed together that the file leaves out."""
_CLEARLY = 10
"""A choice is dropped where another one is closer to an expected blob by this factor."""
_ROUNDING = 2e-6
"""Errors, relative to the largest value, that are not told apart: the rounding of a few layers in float32."""


Watch = Callable[[], None]
"""A function that is called after each node."""


Arrays = Mapping[str, Any]


def identify(
    read_in: Callable[[str | None], Net],
    arrays_of: Callable[[Net], tuple[Arrays, Arrays]],
    tolerance: float = DEEP_TOLERANCE,
    watch: Watch = lambda: None,
) -> Identification:
    """Find the meanings of a network's layers that reproduce the expected blobs from the inputs.

    read_in: reads the network in a dialect; None stands for the user's own, or none. arrays_of: returns the inputs
    and the expected blobs of a network. tolerance, watch, and what is raised: see _identify.
    """
    identification, problem = Identification([]), None
    others: list[str] = []
    try:
        net = read_in(None)
        meanings = Meanings(net)
        identification.tried, others = meanings.dialects, meanings.others
        identification = _identify(net, meanings, arrays_of(net), tolerance, watch)
    except AnyLayerError as error:
        problem = error
        others += error.dialects if isinstance(error, DialectError) else []
    for dialect in others:
        try:
            net = read_in(dialect)
            identification = identification.joined(_identify(net, Meanings(net), arrays_of(net), tolerance, watch))
        except AnyLayerError as error:
            identification.attempts.append(Attempt(dialect, np.inf, error.message))
            identification.tried.append(dialect)
    if problem is not None and not identification.ok:
        raise problem
    return identification


def _identify(
    net: Net, meanings: Meanings, arrays_given: tuple[Arrays, Arrays], tolerance: float, watch: Watch
) -> Identification:
    """Find the meanings of the network's layers that reproduce the expected blobs from the inputs.

    The choices are tried in this order: one dialect for the network, a dialect per layer type, and values that the
    file leaves out. The search ends with the first that reproduces all blobs to the rounding of one layer. Each
    expected blob narrows the choices before the next layers run.

    tolerance: the largest difference of a reproduced blob, relative to its largest value. watch: called after each
    node. Raise InputError where nothing can be compared, and the error of a layer that has the same one in every
    meaning.
    """
    net.require_known()
    arrays = input_arrays(net.network, arrays_given[0])
    examples, notes = _examples(net, arrays, arrays_given[1], tolerance)

    def search(mixed: bool, changed: int) -> _Outcome:
        return _Stage(net, meanings, arrays, examples, tolerance, mixed, changed).run(watch)

    best = search(False, 0)
    if len(meanings.dialects) > 1 and not best.is_exact:
        best = best.better(search(True, 0))
    for changed in range(1, MAX_CHANGED_TYPES + 1):
        if not best.is_exact and (changed == 1 or meanings.found):
            best = best.better(search(False, changed))
    return best.result(meanings, notes)


def _examples(
    net: Net, arrays: Mapping[str, Array], expected: Mapping[str, Any], tolerance: float
) -> tuple[dict[str, tuple[str, Array]], list[str]]:
    """Return the expected blobs as (name, array) by value, and notes on those that are not compared.

    Raise InputError where no blob is left, and for a value of an input that is not the given one.
    """
    network = net.network
    values = {**{v: v for n in network.nodes for v in n.outputs}, **{n: n for n in arrays}, **network.blobs}
    values.update(network.outputs)
    unknown = [name for name in expected if name not in values]
    comparable = [name for name in expected if name in values]
    hint = nearest(unknown[0], values) if unknown else ""
    listed = some(unknown, 5)
    need(comparable, f"{network.source}: the network has no blob {listed or 'to compare'}{hint}", InputError)
    notes = [f"not compared, since the network has no such blob: {listed}{hint}"] if unknown else []
    examples: dict[str, tuple[str, Array]] = {}
    for name in comparable:
        value, array = values[name], np.asarray(expected[name])
        rule = f"expected blob '{name}' holds {array.dtype}, not numbers"
        need(array.dtype.kind in "fiub", rule, InputError)
        if value not in arrays:
            examples[value] = name, array
            continue
        same = arrays[value].shape == array.shape and _relative(arrays[value], array) <= tolerance
        need(same, f"expected blob '{name}' is an input, and not the array that is given for it", InputError)
    need(
        sum(array.size for _, array in examples.values()),
        "nothing can be compared: the expected blobs have no elements, or are inputs of the network",
        InputError,
    )
    return examples, notes


def _relative(actual: Array, want: Array) -> float:
    return largest_error(actual, want) / scale_of(want)


@dataclass(frozen=True, slots=True)
class _World:
    """A choice of meanings per layer type, and the values that it gives, by name as numbers of arrays."""

    means: Mapping[str, frozenset[Meaning]]
    values: Mapping[str, int]


@dataclass(slots=True)
class _Outcome:
    """What a stage of the search found; see Identification."""

    search: _Stage
    worlds: list[_World]
    reproduced: dict[str, float]
    done: int = 0
    first: str = ""
    place: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    given_up: str = ""
    """The layer after which more than MAX_WORLDS worlds were left."""

    @property
    def _error(self) -> float:
        return max(self.reproduced.values()) if self.worlds else np.inf

    @property
    def is_exact(self) -> bool:
        """Whether the expected blobs are reproduced to the rounding of one layer."""
        return self._error <= TOLERANCE["float32"]

    def better(self, later: _Outcome) -> _Outcome:
        """Return the outcome of a later stage where it explains clearly more than this one; else this one."""
        if later.given_up:
            self.given_up = later.given_up
            return self
        further = not self.worlds and later.done > self.done
        return later if further or _CLEARLY * later._error < self._error else self

    def result(self, meanings: Meanings, notes: Sequence[str]) -> Identification:
        """Return the outcome as an Identification."""
        identification = Identification(
            list(meanings.dialects), [], self.reproduced, self.first, self.place, self.attempts, self.before
        )
        identification.notes += notes
        if self.given_up and not self.worlds:
            text = f"more than {MAX_WORLDS} choices are left after {self.given_up}"
            identification.notes.append(f"{text}; expect a blob that is computed before it, too")
        explained = [e for world in self.worlds for e in self.search.explanations(world)]
        fewest = min((len(e.changes) for e in explained), default=0)
        for explanation in sorted(explained, key=lambda e: identification.tried.index(e.dialect)):
            if len(explanation.changes) == fewest and explanation not in identification.explanations:
                identification.explanations.append(explanation)
        if identification.explanations:
            first = identification.explanations[0]
            for type_, text in first.changes.items():
                identification.writes += meanings.found[type_, text].values()
            for type_, dialect in first.types.items():
                identification.writes += (computed := meanings.changes_with(type_, dialect))
                if not computed:
                    identification.classes[type_] = meanings.layer_class(type_, dialect), dialect
        return identification


class _Stage:
    """One run of the network: with one dialect per world or, if `mixed`, one per type, and with changes of values
    that the file leaves out in at most `changed` types."""

    def __init__(
        self,
        net: Net,
        meanings: Meanings,
        arrays: Mapping[str, Array],
        examples: Mapping[str, tuple[str, Array]],
        tolerance: float,
        mixed: bool,
        changed: int,
    ) -> None:
        self._network, self._meanings, self._examples, self._tolerance = net.network, meanings, examples, tolerance
        self._mixed, self._changed = mixed, changed
        self._arrays: list[Array | None] = [None, *arrays.values()]
        start = _World({}, {"": 0, **{name: i for i, name in enumerate(arrays, 1)}})
        self._outcome = _Outcome(self, [start], {})
        needed = {id(n) for n in needed_nodes(net.network, {v: v for v in examples})}
        self._nodes = [(i, n) for i, n in enumerate(net.network.nodes) if id(n) in needed]
        self._last = {name: i for i, n in self._nodes for name in (*n.inputs, *n.outputs)}

    def run(self, watch: Watch) -> _Outcome:
        """Run node by node, until the last expected blob or until no world is left."""
        outcome = self._outcome
        for i, node in self._nodes:
            left, refused = self._step(i, node)
            if not left:
                return self._outcome_at_stop(node, node.outputs[0], refused)
            for value in node.outputs:
                if value in self._examples:
                    left, attempts = self._compare(left, value)
                    if not left:
                        return self._outcome_at_stop(node, value, attempts + refused)
            outcome.worlds = self._merge([self._without_dead(w, i, node) for w in left])
            if len(outcome.worlds) > MAX_WORLDS:
                outcome.worlds, outcome.given_up = [], node.place
                return outcome
            outcome.done += 1
            watch()
        return outcome

    def _outcome_at_stop(self, node: Node, value: str, attempts: list[Attempt]) -> _Outcome:
        """End the run at a blob that no world reproduces."""
        outcome = self._outcome
        outcome.worlds, outcome.place = [], node.place
        outcome.first = self._examples[value][0] if value in self._examples else value
        outcome.attempts = sorted(attempts, key=lambda a: a.error)
        outcome.before = self._between(value)
        return outcome

    def _between(self, value: str) -> list[str]:
        """Return the blobs that `value` is computed from, back to those that are expected, in computing order."""
        between: set[str] = set()
        front = {value}
        for _, node in reversed(self._nodes):
            if front.intersection(node.outputs):
                fresh = {v for v in node.inputs if v and v not in self._examples}
                front |= fresh
                between |= fresh
        names = {v: name for name, v in self._network.blobs.items()}
        return [names[v] for _, n in self._nodes for v in n.outputs if v in between and v in names]

    def _step(self, place: int, node: Node) -> tuple[list[_World], list[Attempt]]:
        """Return the worlds after a node, and the choices in which it cannot be computed.

        Raise the error of a node that cannot be computed in any meaning, for one reason.
        """
        computed: dict[tuple[Meaning, tuple[int, ...]], tuple[int, ...] | AnyLayerError] = {}
        left: list[_World] = []
        refused: dict[str, Attempt] = {}
        errors: dict[str, AnyLayerError] = {}
        for world in self._outcome.worlds:
            inputs = tuple(world.values[name] for name in node.inputs)
            groups: dict[tuple[int, ...], set[Meaning]] = {}
            for meaning in self._meanings_in(world, place, node, inputs):
                key = meaning, inputs
                if key not in computed:
                    computed[key] = self._compute_value(place, meaning, inputs, computed)
                result = computed[key]
                if isinstance(result, AnyLayerError):
                    self._refuse(refused, replace_means(world, node.type, {meaning}), result)
                    errors[str(result)] = result
                else:
                    groups.setdefault(result, set()).add(meaning)
            for outputs, means in groups.items():
                replaced = replace_means(world, node.type, means)
                if self._texts(replaced):
                    left.append(replace(replaced, values={**world.values, **dict(zip(node.outputs, outputs))}))
        if not left and len(errors) == 1:
            raise next(iter(errors.values()))
        return left, list(refused.values())

    def _meanings_in(
        self, world: _World, place: int, node: Node, inputs: tuple[int, ...]
    ) -> Sequence[Meaning] | frozenset[Meaning]:
        """Return the meanings of a node in a world: those that its type has there, or all at its first node."""
        if node.type in world.means:
            return world.means[node.type]
        arrays = [self._arrays[i] for i in inputs]
        return self._meanings.of(place, arrays, changes=self._changed > 0)

    def _compute_value(
        self, place: int, meaning: Meaning, inputs: tuple[int, ...], others: Mapping[Any, Any]
    ) -> tuple[int, ...] | AnyLayerError:
        """Return the outputs of a node as numbers, those of an equal array where another meaning gives it."""
        try:
            outputs = self._meanings.run(place, meaning, [self._arrays[i] for i in inputs])
        except AnyLayerError as error:
            return error
        arrays = [result for result in others.values() if isinstance(result, tuple)]
        numbers = []
        for k, array in enumerate(outputs):
            same = (r[k] for r in arrays if _equal(self._arrays[r[k]], array))
            number = next(same, len(self._arrays))
            if number == len(self._arrays):
                self._arrays.append(array)
            numbers.append(number)
        return tuple(numbers)

    def _refuse(self, refused: dict[str, Attempt], world: _World, error: AnyLayerError) -> None:
        reason = "the file fits several meanings" if isinstance(error, DialectError) else error.message
        for text in self._texts(world):
            refused.setdefault(text, Attempt(text, np.inf, reason))

    def _compare(self, worlds: list[_World], value: str) -> tuple[list[_World], list[Attempt]]:
        """Return the worlds that reproduce an expected blob, with its array as their value, and the others."""
        name, want = self._examples[value]
        errors: list[float] = []
        attempts: dict[str, Attempt] = {}
        for world in worlds:
            computed = self._arrays[world.values[value]]
            shape = () if computed is None else computed.shape
            error = np.inf if computed is None or shape != want.shape else _relative(computed, want)
            errors.append(error)
            reason = "" if shape == want.shape else f"shape {shape}, expected {want.shape}"
            for text in self._texts(world):
                attempts.setdefault(text, Attempt(text, error, reason))
        best = min(errors)
        if best > self._tolerance:
            return [], list(attempts.values())
        limit = min(self._tolerance, max(_CLEARLY * best, _ROUNDING))
        self._outcome.reproduced[name] = best
        number = len(self._arrays)
        first = self._arrays[worlds[errors.index(best)].values[value]]
        dtype = want.dtype if first is None else first.dtype
        self._arrays.append(np.asarray(want, dtype, order="C"))
        matching = [w for w, error in zip(worlds, errors) if error <= limit]
        return [replace(w, values={**w.values, value: number}) for w in matching], []

    def _without_dead(self, world: _World, place: int, node: Node) -> _World:
        """Return the world without the values that no later node reads."""
        dead = {name for name in (*node.inputs, *node.outputs) if name and self._last[name] == place}
        return replace(world, values={k: v for k, v in world.values.items() if k not in dead})

    def _merge(self, worlds: list[_World]) -> list[_World]:
        """Unite worlds that have the same values and differ in the meanings of one type. Drop dead arrays."""
        merged: list[_World] = []
        for world in worlds:
            for i, other in enumerate(merged):
                differing = [t for t in world.means if world.means[t] != other.means[t]]
                if len(differing) <= 1 and world.values == other.values:
                    for type_ in differing:
                        merged[i] = replace_means(other, type_, world.means[type_] | other.means[type_])
                    break
            else:
                merged.append(world)
        alive = {number for world in merged for number in world.values.values()}
        for number in range(len(self._arrays)):
            if number not in alive:
                self._arrays[number] = None
        return merged

    def explanations(self, world: _World) -> list[Explanation]:
        """Return the choices of a world: a dialect for the network and, in mixed worlds, others for some types.

        Changes are those of types in which no meaning without a change is left.
        """
        explanations = []
        for dialect in self._meanings.dialects:
            types: dict[str, str | None] = {}
            changes: dict[str, str] = {}
            for type_, means in world.means.items():
                dialect_here = self._meanings.dialect_of(type_, dialect)
                texts = [m.change for m in means if m.dialect == dialect_here]
                if not texts and self._mixed:
                    other = min(means, key=lambda m: m.dialect or "")
                    types[type_] = other.dialect
                    texts = [other.change]
                if not texts:
                    break
                if min(texts):
                    changes[type_] = min(texts)
            else:
                if len(changes) <= self._changed:
                    explanations.append(Explanation(dialect, types, changes))
        fewest = min((len(e.types) for e in explanations), default=0)
        return [e for e in explanations if len(e.types) == fewest]

    def _texts(self, world: _World) -> list[str]:
        """Return the choices of a world as texts; [] where none is consistent."""
        return [explanation_text(e) for e in self.explanations(world)]


def replace_means(world: _World, type_: str, means: set[Meaning] | frozenset[Meaning]) -> _World:
    """Return the world in which a type has these meanings."""
    return replace(world, means={**world.means, type_: frozenset(means)})


def _equal(a: Array | None, b: Array) -> bool:
    if a is None or a.shape != b.shape or a.dtype != b.dtype:
        return False
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
