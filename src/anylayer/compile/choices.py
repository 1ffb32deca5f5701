"""The sizes at which a network with open sizes is traced, and those at which its file is verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from anylayer.errors import InputError
from anylayer.graph.open_sizes import OpenSizes, solved
from anylayer.network import TensorType

Symbols = dict[str, int]
"""A value for each symbol of the open sizes."""

_UNKNOWN = 96
"""The value with which an open size is traced, if the file suggests none."""
_STEPS = (32, 64, 37, 16, 128, 8, 1, 96, 4, 2, 256, 512)
"""The differences between the sizes of the first and the second trace, tried in this order."""
_VERIFIED = 5
"""The number of choices of sizes at which a file is verified."""
_NEAR = 64
"""The largest distance from the wanted size at which a size that fulfils the guards is searched for."""


def first_sizes(sizes: OpenSizes, types: Mapping[str, TensorType | None]) -> list[Symbols]:
    """Return the sizes to try for the first trace, the best first.

    A batch is 2. Other sizes are those of the file, or 96. In the first choice, different symbols have different
    values, so that code that compares them takes the usual branch. The second choice has equal values, for
    networks that need them; in the third, the batch has this value, too.
    """
    proposed = {name: _first_value(name, sizes, types) for name in sizes.symbols}
    batches = _batches(sizes)
    values: Symbols = {}
    for name, value in proposed.items():
        low, high = sizes.ranges[name]
        limited = max(low, min(2 if name in batches else value or _part(_UNKNOWN, name, sizes), high))
        step = _part(32, name, sizes)
        while limited in values.values() and name not in batches and limited + step <= high:
            limited += step
        values[name] = limited
    same = {name: values[name] if name in batches else proposed[name] or values[name] for name in values}
    equal = dict.fromkeys(values, max((same[name] for name in values if name not in batches), default=2))
    choices = [values]
    for symbols in (same, equal):
        if symbols not in choices and sizes.allow(symbols):
            choices.append(symbols)
    return choices


def larger_sizes(sizes: OpenSizes, first: Symbols) -> Symbols | None:
    """Return sizes that are larger than those of the first trace, or None where the ranges do not allow them."""
    batches = _batches(sizes)
    larger = {n: value + (0 if n in batches else _part(_UNKNOWN, n, sizes)) for n, value in first.items()}
    return larger if larger != first and sizes.allow(larger) else None


def _first_value(name: str, sizes: OpenSizes, types: Mapping[str, TensorType | None]) -> int:
    """Return the largest value of a symbol for which an input is not larger than the file states, or 0."""
    for source, shape in sizes.shapes.items():
        kind = types.get(source)
        if kind is None or len(kind.shape) != len(shape):
            continue
        for e, d in zip(shape, kind.shape):
            solution = solved(e, name)
            if solution is not None and solution[0] > 0 and d >= solution[0] + solution[1]:
                return (d - solution[1]) // solution[0]
    return 0


def _part(size: int, name: str, sizes: OpenSizes) -> int:
    """Return the value of a symbol, at least 1, for which its largest multiple among the sizes is about `size`."""
    lines = [solved(e, name) for shape in sizes.shapes.values() for e in shape]
    return max(size // max([1, *(line[0] for line in lines if line is not None)]), 1)


def _batches(sizes: OpenSizes) -> set[str]:
    """Return the symbols that are the first size of an input, and no other size."""
    first = {str(shape[0]) for shape in sizes.shapes.values()}
    rest = {name for shape in sizes.shapes.values() for e in shape[1:] for name in e.symbols}
    return first - rest


def second_sizes(sizes: OpenSizes, first: Symbols) -> Symbols:
    """Return sizes for the second trace: all different from the first ones, and allowed by the guards.

    Raises InputError, with the guards, where there are none.
    """
    batches = _batches(sizes)
    for step in _STEPS:
        for direction in (1, -1):
            second = {
                name: value
                + (1 if name in batches else direction * _part(step + (step % 32 == 0) * 32 * i, name, sizes))
                for i, (name, value) in enumerate(first.items())
            }
            if min(second.values()) >= 1 and sizes.allow(second):
                return second
    for steps in product((1, 2, 3, 4, 8, 16, 32, -1, -2, -4, -8, -16, -32), repeat=min(len(first), 3)):
        second = {name: value + steps[i % len(steps)] for i, (name, value) in enumerate(first.items())}
        if min(second.values()) >= 1 and sizes.allow(second):
            return second
    traced = ", ".join(f"{n}={v}" for n, v in first.items())
    raise InputError(
        f"the sizes cannot be open, because the layers allow only those of the trace ({traced}): "
        f"{conditions_text(sizes) or 'none'}. Give numbers, or couple the sizes: one name for two of them, or a "
        "multiple (32*h)"
    )


def conditions_text(sizes: OpenSizes) -> str:
    """Return the conditions on the sizes as text, or "". The guards are stated with the line that needs them."""
    guards = [f"{g} ({g.place})" if g.place else str(g) for g in sizes.guards]
    plain = sizes.conditions()
    return "; ".join([*plain[: len(plain) - len(guards)], *guards])


def verified_sizes(sizes: OpenSizes) -> list[Symbols]:
    """Return five choices of sizes that were not traced and that the guards allow, fewer where there are fewer.

    They are the smallest sizes, odd sizes, primes, large sizes, and sizes with different factors per symbol; each
    is moved to the nearest sizes that the guards allow.
    """
    verified: list[Symbols] = []
    for target in _targets(sizes.traced[0], sizes):
        near = next((s for s in _near(target, sizes) if s not in verified and s not in sizes.traced), None)
        if near is not None:
            verified.append(near)
        if len(verified) == _VERIFIED:
            break
    return verified


def _targets(base: Mapping[str, int], sizes: OpenSizes) -> Iterator[Symbols]:
    batches = _batches(sizes)

    def scale_sizes(samples: int, *factors: float, odd: bool = False) -> Symbols:
        values = {}
        for i, (name, value) in enumerate(base.items()):
            scaled_value = samples if name in batches else int(value * factors[i % len(factors)])
            values[name] = scaled_value | 1 if odd and name not in batches else max(scaled_value, 1)
        return values

    yield {name: low for name, (low, _) in sizes.ranges.items()}
    yield scale_sizes(2, 0.5, 0.7, odd=True)
    yield {name: _prime(v) if name not in batches else 1 for name, v in scale_sizes(1, 0.75, 0.6).items()}
    yield scale_sizes(1, 1.2, 1.25)
    yield scale_sizes(3, 0.3, 0.9)
    for factor in (1.5, 2.0, 2.5, 3.0, 4.0):  # where the first ones do not exist
        yield scale_sizes(1, factor, 0.8 * factor)
    for less in (1, 2, 3, 5, 8):
        yield {
            name: max(value - less, low) for (name, value), (low, _) in zip(base.items(), sizes.ranges.values())
        }
    for samples in range(1, _VERIFIED + 2) if batches else ():  # where the other sizes are almost fixed
        yield scale_sizes(samples, 1)


def _prime(n: int) -> int:
    """Return the least prime number that is not below `n`."""
    n = max(n, 2)
    while any(n % d == 0 for d in range(2, int(n**0.5) + 1)):
        n += 1
    return n


def _near(target: Symbols, sizes: OpenSizes) -> Iterator[Symbols]:
    """Yield the allowed sizes near the wanted ones: all increased by the same number, then each by its own."""
    limited = {n: max(sizes.ranges[n][0], min(v, sizes.ranges[n][1])) for n, v in target.items()}
    batches = _batches(sizes)
    spread = [n for n in limited if n not in batches] or list(limited)
    for offset in range(4 * _NEAR):
        nearby = {n: v + (offset if n in spread else 0) for n, v in limited.items()}
        if sizes.allow(nearby):
            yield nearby
    for offsets in product(range(_NEAR), repeat=min(len(spread), 2)):
        moved = dict(limited)
        for i, name in enumerate(spread):
            moved[name] += offsets[i % len(offsets)]
        if sizes.allow(moved):
            yield moved
