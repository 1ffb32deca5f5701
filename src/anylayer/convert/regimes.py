"""The rules by which an output of a written file passes, as one table in the order in which they are tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from anylayer.compile.inputs import needed_nodes
from anylayer.compile.noise import real_data
from anylayer.convert.checks import (
    OutputCheck,
    about_deeper,
    compare,
    error_of_rows,
    of_file,
    output_checks,
    run_file,
)
from anylayer.convert.nodes import after_jumps
from anylayer.errors import AnyLayerError
from anylayer.graph import Graph
from anylayer.graph.intervals import range_rounding
from anylayer.graph.operators import PLAIN_SUMS, REARRANGES, WEIGHTED
from anylayer.network import Array, Node
from anylayer.numerics import (
    DEEP_HALF_TOLERANCE,
    DEEP_TOLERANCE,
    INT8_TOLERANCE,
    TOLERANCE,
    largest_error,
    scale_of,
    tolerance_for,
)
from anylayer.source import Run, Written

if TYPE_CHECKING:
    from anylayer.convert.verification import Verification

WithValues = Callable[[tuple[str, ...]], tuple[Written, Run]]
"""A function that writes the file once more with values inside the network as additional outputs, and opens it."""

_MAX_SHALLOW_SUMS = 20
"""A network with more operators of WEIGHTED has the tolerance of deep networks."""
_LAST_DIGITS = 4 * float(np.finfo(np.float32).eps)
"""The largest relative change of a value that rounding inside a node may cause."""
_ROUNDINGS = 16
"""The number of times that values are changed in their last digits and compared again."""
MAX_ROUNDING = 1e-2
"""The largest tolerance that may follow from the rounding of float32, relative to the largest value."""
ROUNDING_FACTOR = 4
"""A file may differ by this many times the source's own rounding error: engines add in another order, and some
compute convolutions by transformations that round more."""
_MIN_SPREAD = 0.01
"""An output whose values differ by less than this share of the largest one hardly shows mistakes."""


@dataclass(frozen=True)
class Comparison:
    """One run of a file on a set of inputs: the outputs of the source (`want`) and of the file (`results`).

    `with_values` is None where the file is not written once more to compare values inside the network.
    """

    verification: Verification
    written: Written
    inputs: Mapping[str, Array]
    want: Mapping[str, Array]
    results: Mapping[str, Array]
    with_values: WithValues | None = None

    @cached_property
    def by_nodes(self) -> dict[str, Array] | None:
        """The outputs of the file written with the values inside it, which two rules judge: see _by_nodes."""
        return _by_nodes(self)

    def judged(self, tolerance: float) -> list[OutputCheck]:
        """Return a check per output, by the first rule that accepts it. tolerance: that of "share" and "rms"."""
        source = self.verification.source
        constant = {n for n, v in zip(source.outputs, source.graph.outputs) if v.const is not None}
        measured = output_checks(self.want, self.results, self.written, tolerance)
        checks = {c.name: replace(c, tells=True) if c.name in constant else c for c in measured}
        precision = "float32" if self.written.precision == "float32" else "low"
        for rule in REGIMES:
            rejected = [c for c in checks.values() if not c.ok]
            if rule.judge is not None and rule.precision == precision and rejected:
                checks.update((c.name, replace(c, rule=rule.name)) for c in rule.judge(self, rejected))
        return [*checks.values()]


@dataclass(frozen=True, slots=True)
class Regime:
    """A rule by which an output of a file passes.

    `applies` says when it applies, `compares` what it compares, `tolerance` by how much no value may differ, and
    `reason` why. `note` tells the user what the rule means for the output `{}`; it is "" for the usual rules.
    `judge` returns new checks of outputs that all earlier rules reject, in files of `precision` ("float32" or
    "low"). It is None for the rules by which outputs are measured first.
    """

    name: str
    applies: str
    compares: str
    tolerance: str
    reason: str
    note: str = ""
    precision: str = ""
    judge: Callable[[Comparison, Sequence[OutputCheck]], Iterable[OutputCheck]] | None = None


def _by_range(comparison: Comparison, rejected: Sequence[OutputCheck]) -> Iterator[OutputCheck]:
    """Accept outputs that differ by the rounding of their range, such as 0 to 1 after a sigmoid.

    They tell little.
    """
    source = comparison.verification.source
    values = dict(zip(source.outputs, source.graph.outputs))
    for c in rejected:
        floor = range_rounding(values[c.name], source.graph.producers) if c.name in values else 0.0
        if not c.note and c.error <= floor:
            yield replace(c, ok=True, tolerance=floor / c.scale, tells=False)


def _by_float64(comparison: Comparison, rejected: Sequence[OutputCheck]) -> Iterator[OutputCheck]:
    """Judge outputs that differ a little by what float32 rounds.

    The source in float32 differs from float64 by one example of rounding. Where the network takes the logarithm of
    a rounded 0, or divides by it, another run may have many times this error. The file with the values inside it
    is another example, if each of its nodes computes the same as NumPy from the same values.
    """
    near = [c for c in rejected if not c.note and c.error <= MAX_ROUNDING * c.scale]
    if not near or comparison.verification.job.network.dtype not in (None, np.float32):
        return
    want = comparison.want
    try:
        by_nodes = comparison.by_nodes
        exact = comparison.verification.in_float64(comparison.inputs)
    except AnyLayerError:  # a layer of the user may not compute in float64
        return
    for c in near:
        examples = [exact[c.name], *([by_nodes[c.name]] if by_nodes and c.name in by_nodes else [])]
        rounding = ROUNDING_FACTOR * max(largest_error(want[c.name], x) for x in examples) / c.scale
        tolerance = min(max(c.tolerance, rounding), MAX_ROUNDING)
        yield replace(c, tolerance=tolerance, ok=by_nodes != {} and c.error <= tolerance * c.scale)


def _by_nodes(comparison: Comparison) -> dict[str, Array] | None:
    """Return the outputs of the file written with the values inside it, if each node is right; {} if not.

    A node is right if it computes what NumPy computes from the file's own values, within the tolerance of one
    layer, or that of its own rounding in float32. None: the file cannot be written with these values.
    """
    verification = comparison.verification
    if comparison.with_values is None or comparison.written.transposed:
        return None
    nodes = needed_nodes(verification.job.network, verification.outputs)
    try:
        written, run = comparison.with_values(tuple(n for node in nodes for n in node.outputs))
        results = run_file(run, written, comparison.inputs)
    except AnyLayerError:
        return None
    names = [*comparison.inputs, *(n for node in nodes for n in node.outputs)]
    values = {**comparison.inputs, **{n: x for n in names if (x := of_file(n, results, written)) is not None}}
    if not all(_node_equal(verification, node, comparison.inputs, values) for node in nodes):
        return {}
    outputs = {n: of_file(n, results, written) for n in verification.outputs}
    return {n: x for n, x in outputs.items() if x is not None and x.shape == comparison.want[n].shape}


def _node_equal(
    verification: Verification, node: Node, inputs: Mapping[str, Array], values: Mapping[str, Array]
) -> bool:
    """Return whether a node computes what NumPy computes. values: what the file computes, and its inputs."""
    outputs = {n: n for n in node.outputs if n in values}
    arguments = {n: values[n] for n in node.inputs if n in values}
    body = next((t.body for t in verification.source.nodes if t.node.outputs == node.outputs), None)
    sums = body is not None and all(o in PLAIN_SUMS | REARRANGES for o in body.ops)
    least = min(scale_of(*arguments.values()), 1.0) if sums else 0.0  # terms that cancel each other
    quantizes = body is not None and any(o.op == "QuantizeLinear" for o in body.ops)
    want = verification.numpy(inputs, outputs, arguments) if outputs else {}
    exact: dict[str, Array] = {}
    for name, x in want.items():
        if x.shape != values[name].shape:
            return False
        error = largest_error(values[name], x)
        if quantizes and x.dtype.kind in "iu" and error <= 1:
            continue
        if error > tolerance_for(x.dtype) * max(scale_of(x), least):
            exact = exact or verification.in_float64(inputs, outputs, arguments)
            if error > ROUNDING_FACTOR * largest_error(x, exact[name]):
                return False
    return True


def _by_selection(comparison: Comparison, rejected: Sequence[OutputCheck]) -> Iterator[OutputCheck]:
    """Compare outputs after a discontinuous operator in two parts.

    The values that these operators' nodes read must match those of the source. The outputs must match what the
    layers compute in NumPy from the values of the file, or from the same values with changed last digits, because
    a node may itself compute the numbers by which it selects, such as boxes from a map. Rows of almost equal rank
    may be exchanged.
    """
    verification, inputs = comparison.verification, comparison.inputs
    after, read = after_jumps(verification.source)
    left = {c.name: c for c in rejected if verification.outputs[c.name] in after}
    if not left or not read or comparison.with_values is None:
        return
    written, run = comparison.with_values(tuple(read))
    results = run_file(run, written, inputs)
    before = {n: array for n in read if (array := of_file(n, results, written)) is not None}
    checks = output_checks(
        verification.numpy(inputs, {n: n for n in before}), results, written, verification.tolerance
    )
    if not before or written.transposed or not all(c.ok for c in checks):
        return
    for near in _roundings(before):
        want = verification.numpy(inputs, {name: verification.outputs[name] for name in left}, near)
        for c in output_checks(want, results, written, verification.tolerance):
            output = of_file(c.name, results, written)
            error = c.error if c.ok else error_of_rows(want[c.name], output, c.tolerance)
            if error <= c.tolerance * c.scale:
                del left[c.name]
                yield replace(c, error=error, ok=True, note="")
        if not left:
            return


def _roundings(values: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
    """Yield the arrays, then copies whose floats have other last digits, as another rounding would give them."""
    yield values
    noise = np.random.default_rng(0)
    for _ in range(_ROUNDINGS):
        yield {name: other_digits(x, noise) for name, x in values.items()}


def other_digits(x: Array, noise: np.random.Generator) -> Array:
    """Return an array with other last digits of float32, as another rounding gives them; integers as they are."""
    return x * (1 + _LAST_DIGITS * noise.uniform(-1, 1, x.shape)).astype(x.dtype) if x.dtype.kind == "f" else x


def _by_steps(comparison: Comparison, rejected: Sequence[OutputCheck]) -> Iterator[OutputCheck]:
    """Accept outputs of a quantized network that differ from the source as little as those of a file of int8, if
    each node computes what NumPy computes from the file's own values, up to one step.
    """
    verification, want = comparison.verification, comparison.want
    if any(o.op == "QuantizeLinear" for o in verification.source.graph.ops) and comparison.by_nodes:
        for c in rejected:
            output = of_file(c.name, comparison.results, comparison.written)
            if output is not None and not c.note:
                yield replace(compare(c.name, want[c.name], output, INT8_TOLERANCE, rms=True), run_by=c.run_by)


def _by_any_error(comparison: Comparison, rejected: Sequence[OutputCheck]) -> Iterator[OutputCheck]:
    """Accept outputs after a discontinuous operator. Verification.compare_nodes compares the values before it."""
    after = comparison.verification.jumps(comparison.written)
    yield from (replace(c, ok=True, tolerance=math.inf) for c in rejected if c.name in after and not c.note)


REGIMES: tuple[Regime, ...] = (
    Regime(
        "share",
        "always, except for int8",
        "each value with the source in NumPy",
        f"{TOLERANCE['float32']:g} of the output's largest value; {DEEP_TOLERANCE:g} with more than "
        f"{_MAX_SHALLOW_SUMS} convolutions and matrix products, and in a further runtime; "
        f"{TOLERANCE['float16']:g} and {DEEP_HALF_TOLERANCE:g} where the network computes in float16; "
        f"{DEEP_HALF_TOLERANCE:g} in a file of float16",
        "engines add in another order, and rounding errors add up over the layers",
    ),
    Regime(
        "rms",
        "int8",
        "the root mean square of the differences with that of the values",
        f"{INT8_TOLERANCE:g} of it",
        "with 256 levels single values are off by much, but few are",
    ),
    Regime(
        "floor",
        "float32; all values of the output are tiny in the range that its last operator can give",
        "each value with the source in NumPy",
        "what float32 rounds in this range, 1e-6 from 0 to 1 after a sigmoid or softmax",
        "the operator rounds for its whole range, whatever the values are",
        "all values of output '{}' are tiny in the range that its last operator can give, and no value differs by "
        "more than float32 rounds in this range",
        "float32",
        _by_range,
    ),
    Regime(
        "float64",
        "float32; large terms cancel each other, or a small number is divided by",
        "each output with the source; the source with itself in float64; and, where a file can have the values "
        "inside it as outputs, each node with NumPy on the file's own values",
        f"{ROUNDING_FACTOR} times the difference between float32 and float64, or between the source and the file "
        f"with these values, at most {MAX_ROUNDING:g} of the output's largest value; {TOLERANCE['float32']:g} of "
        "a node's",
        "float32 itself rounds by more there, in the source as in the file",
        "output '{}' differs by more than the usual tolerance, but by no more than float32 itself rounds for "
        "these inputs (measured against float64, and node by node): ",
        "float32",
        _by_float64,
    ),
    Regime(
        "selection",
        "float32, in the file's own runtime; the output depends on a selection (NMS, top-k, arg-max)",
        "the values before the selection with the source; the output with what NumPy selects from the file's own "
        "values, up to their last digits",
        "that of `share`, for both",
        "rounding decides between values that are almost equal",
        "output '{}' selects between values so close that rounding decides: the values before were compared "
        "with the source, and the selection with that of NumPy for the file's own values, up to their last digits",
        "float32",
        _by_selection,
    ),
    Regime(
        "steps",
        "float32, in the file's own runtime; the network is quantized",
        "each node with what NumPy computes from the file's own values; the root mean square of the differences "
        "with that of the values",
        f"one step of a quantized value, else that of `share`; {INT8_TOLERANCE:g}",
        "the last bits of a real number decide to which of two steps it is rounded, and networks add this up",
        "output '{}' depends on quantized values, which rounding moves by a step: each layer was compared on the "
        "values of the file",
        "float32",
        _by_steps,
    ),
    Regime(
        "unlimited",
        "float16 and int8; the output depends on a selection",
        "the values before the selection with the source",
        "any error of the output; that of `share` or `rms` for the values before",
        "small errors change what is selected",
        "output '{}' depends on values that are ordered, selected or compared, which small errors may change; its "
        "own error has no limit, but the values before are compared",
        "low",
        _by_any_error,
    ),
)
"""The rules in the order in which they are tried: the first one that accepts an output is the check's `rule`."""


def tolerance_of(graph: Graph) -> float:
    """Return the tolerance for the outputs of a graph, relative to their largest values."""
    half = any(v.dtype == np.float16 for o in graph.ops for v in o.outputs)
    dtype = np.dtype(np.float16 if half else np.float32)
    return tolerance_for(dtype, deep=_sums(graph) > _MAX_SHALLOW_SUMS)


def _sums(graph: Graph) -> int:
    """Count the operators that sum up many values, in a graph and in the bodies of its calls."""
    return sum(_sums(o.body) if o.body is not None else o in WEIGHTED for o in graph.ops)


def weak_checks(checks: Sequence[OutputCheck]) -> list[str]:
    """Return a note for each output whose comparison shows little, or that passed by another rule than usual."""
    notes = []
    for name in dict.fromkeys(c.name for c in checks if not c.part):
        same = [c for c in checks if c.name == name and not c.part]
        flat = next((c for c in same if c.spread is not None and c.spread < _MIN_SPREAD * c.scale), None)
        for rule in REGIMES:
            if rule.note and any(c.rule == rule.name for c in same):
                notes.append(rule.note.format(name) + real_data() * rule.note.endswith(" "))
        deeper = [c for c in checks if c.of == name]
        if deeper or not any(c.tells for c in same):
            notes.append(about_deeper(name, deeper))
        elif flat is not None:
            notes.append(
                f"the values of output '{name}' span only {flat.spread:.3g}, and the largest is {flat.scale:.3g}, "
                f"which hides mistakes: {real_data()}"
            )
    return notes
