"""Comparison of a user's `forward` with its trace: the values that both compute, and the time that both take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

import numpy as np

from anylayer.compile.limits import need_memory, size
from anylayer.errors import AnyLayerError, EngineError, TraceError, kind_and_text
from anylayer.graph import Graph
from anylayer.graph.operators import selects
from anylayer.network import Array, TensorType
from anylayer.numerics import NAN, difference, integer_ranges, normal_noise

ArrayFunction = Callable[[list[Array]], Sequence[Array]]
Compiler = Callable[[Graph], ArrayFunction]

SELECTING = (0.0, 0.0), (1.0, 1e3), (1.0, -1e3), (0.1, 0.5)
"""(factor, summand): made of noise, inputs for which code may select nothing, everything or a part."""
_GOLDEN = (5**0.5 - 1) / 2
_SEARCHED = 200
"""The number of inputs among which one is searched for each path of a trace with branches."""
_MANY_OPERATORS = 200
"""A trace of more operators, or with a loop, is timed. A loop over single elements unrolls into as many."""
_SLOWER = 2.0
_CALL_SECONDS = 20e-6
"""The time, in seconds, that a host call takes in addition to NumPy, rounded up."""
_TIMED_CALLS = 3
_LONG_CALL = 0.2


def compare_trace(
    body: Graph, forward: ArrayFunction, types: Sequence[TensorType], compiler: Compiler, *others: Compiler
) -> None:
    """Run a user's `forward` and its trace on seeded noise, and raise TraceError if the trace is wrong or slow.

    body: the trace. forward: the same function in NumPy. types: the types of its inputs. compiler: compiles a
    graph for the engine. others: the same for engines that may run the layer instead. The trace is wrong if its
    values differ from those of `forward`, and slow if it has many operators or a loop and takes longer than NumPy
    on all of them. A trace that selects is compared for zeros and for noise above and below 0, too, where it may
    select everything or nothing. Nothing is compared if the size of an input depends on data.
    """
    if any(not isinstance(d, int) for t in types for d in t.shape):
        return
    need_memory(3 * sum(map(size, types)), "trying it")
    program: ArrayFunction | None = None
    paths = _Untaken(body, compiler)
    half = any(v.dtype == np.float16 for o in body.ops for v in o.outputs)
    tries = [(integers > 2, normal_noise(types, integers=integers)) for integers in integer_ranges(types)]
    is_selecting = selects(body)
    if is_selecting:
        noise = tries[0][1]
        tries += [(True, [selecting(x, at) for x in noise]) for at in range(len(SELECTING))]
    for may_fail, inputs in chain(tries, _inputs_for(types, paths)):
        paths.note(inputs)
        try:
            with np.errstate(all="ignore"):
                want = [np.asarray(o) for o in forward([x.copy() for x in inputs])]
        except Exception as error:
            if may_fail:
                continue
            kind, text = kind_and_text(error)
            raise TraceError(f"forward raises {kind} on noise: {text}") from error
        try:
            program = program or compiler(body)
            results = program(inputs)
        except EngineError as error:
            if not is_selecting:
                raise
            raise TraceError(f"the engine does not run what was recorded: {error.message}") from error
        _need_equal(results, want, half)
    for place in paths.places:
        body.notes.append(f"no input that was tried takes the path after {place}; it was not compared with NumPy")
    has_loop = any(o.op == "Loop" for o in body.ops)
    if program is not None and (has_loop or len(body.ops) > _MANY_OPERATORS):
        _need_speed(body, program, forward, normal_noise(types), others)


class _Untaken:
    """The paths of a trace that no input has taken so far: `places` are the lines that decide for them."""

    def __init__(self, body: Graph, compiler: Compiler) -> None:
        self._decided = body.decided
        self._paths = {} if body.decided is None else dict(body.decided.paths)
        try:
            self._program = None if body.decided is None else compiler(body.decided.conditions)
        except EngineError as error:
            raise TraceError(f"the engine does not run what decides for a path: {error.message}") from error

    @property
    def places(self) -> list[str]:
        return list(dict.fromkeys(self._paths.values()))

    def note(self, inputs: Sequence[Array]) -> bool:
        """Remove the path that these inputs take, and return whether it was left.

        Inputs for which the engine refuses a condition, such as an index out of range, take no path.
        """
        if not self._paths or self._program is None:
            return False
        try:
            answers = [bool(np.asarray(c).reshape(())) for c in self._program(list(inputs))]
        except AnyLayerError:
            return False
        ways = [path for path in self._paths if all(answers[i] == answer for i, answer in path)]
        for path in ways:
            del self._paths[path]
        return bool(ways)


def _inputs_for(types: Sequence[TensorType], paths: _Untaken) -> Iterator[tuple[bool, list[Array]]]:
    """Yield inputs that take paths which no input has taken so far, for which NumPy may fail."""
    for seed in range(_SEARCHED):
        if not paths.places:
            return
        random = np.random.default_rng(seed)
        inputs = [_varied_noise(random, t) for t in types]
        if paths.note(inputs):
            yield True, inputs


def _varied_noise(random: np.random.Generator, kind: TensorType) -> Array:
    """Return noise of a random size and offset, in some cases rounded, constant or sparse."""
    scale, shift = (
        10.0 ** random.integers(-2, 3),
        random.choice([0.0, 0.0, 0.5, 1.0, -1.0, 3.0, -3.0, 30.0, -30.0]),
    )
    noise = random.standard_normal(kind.shape) if random.random() < 0.7 else random.random(kind.shape)
    form = random.integers(5)
    if form == 0:
        noise = noise * 0
    elif form == 1:
        noise = np.where(random.random(kind.shape) < 0.1, noise, 0)
    x = noise * scale + shift
    with np.errstate(all="ignore"):
        return np.asarray(np.rint(x) if form == 2 else x).astype(kind.dtype)


def selecting(noise: Array, at: int) -> Array:
    """Return noise changed as row `at` of SELECTING says. Values that differ still do, if there are not too many:
    the order in which NumPy sorts equal ones is not stated.
    """
    scale, shift = SELECTING[at]
    if noise.dtype.kind == "f" and noise.size:
        values, ranks = np.unique(noise, return_inverse=True)
        places = np.cumsum(1 + np.arange(len(values)) * _GOLDEN % 1)  # even steps have equal sums
        spread = np.interp(places, places[[0, -1]], values[[0, -1]]).astype(noise.dtype)
        noise = spread[ranks.reshape(noise.shape)]
    with np.errstate(all="ignore"):
        return np.asarray(noise * scale + shift).astype(noise.dtype)


def _need_equal(results: Sequence[Array], want: Sequence[Array], half: bool) -> None:
    """Raise TraceError if the outputs of a trace differ from those of NumPy. half: as in `difference`."""
    for i, (result, array) in enumerate(zip(results, want)):
        if array.shape == (0,) and not result.size:
            continue  # NumPy makes it of an empty list, whose elements would have more axes
        how = difference(result, array, half=half, loose=True)
        if how:
            cause = "engines do not promise NumPy's NaN" if how == NAN else "it depends on more than its inputs"
            raise TraceError(f"output {i} of forward on noise differs from what was recorded ({how}): {cause}")


def _need_speed(
    body: Graph,
    program: ArrayFunction,
    forward: ArrayFunction,
    inputs: Sequence[Array],
    others: Sequence[Compiler],
) -> None:
    """Raise TraceError where a trace is slower than `forward` in NumPy, also on other engines that compile it."""
    with np.errstate(all="ignore"):
        numpy_seconds = _seconds(forward, inputs)
    engine_seconds = _seconds(program, inputs)
    if engine_seconds <= _SLOWER * (numpy_seconds + _CALL_SECONDS):
        return
    for compiler in others:
        with suppress(EngineError):
            if _seconds(compiler(body), inputs) <= _SLOWER * (numpy_seconds + _CALL_SECONDS):
                return
    place, count = Counter(o.place for o in body.ops).most_common(1)[0]
    raise TraceError(
        f"{body.operator_count} operators were recorded, {count} of them at this line. They take "
        f"{1e6 * engine_seconds:.0f} microseconds, and NumPy takes {1e6 * numpy_seconds:.0f}; compute whole "
        "slices instead of single elements, and the layer runs in the engine",
        *([place] if place else []),
    )


def _seconds(function: ArrayFunction, inputs: Sequence[Array]) -> float:
    """Return the seconds of the fastest of a few calls."""
    best = float("inf")
    for _ in range(_TIMED_CALLS):
        copies = [x.copy() for x in inputs]
        start = time.perf_counter()
        function(copies)
        best = min(best, time.perf_counter() - start)
        if best > _LONG_CALL:
            break
    return best
