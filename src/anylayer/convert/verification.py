"""Verification of written files: compare what a file computes with the source's layers in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from anylayer.compile.inputs import needed_inputs, needed_nodes
from anylayer.compile.noise import real_data
from anylayer.convert.checks import (
    FLOAT64,
    FLOOR,
    SELECTION,
    UNLIMITED,
    OutputCheck,
    compare,
    error_of_rows,
)
from anylayer.convert.deeper import WithValues, deeper_checks
from anylayer.convert.job import Job
from anylayer.convert.nodes import NodeError, after_jumps, costliest, node_errors
from anylayer.engines import load_engine
from anylayer.errors import AnyLayerError, ConversionError, adding_advice, wording
from anylayer.graph import Graph, Value
from anylayer.graph.intervals import range_rounding
from anylayer.graph.operators import WEIGHTED
from anylayer.network import Array, Node, TensorType
from anylayer.numerics import (
    DEEP_TOLERANCE,
    largest_error,
    tolerance_for,
)
from anylayer.runtime.run import NumpyRunner
from anylayer.source import Run, Source, Written
from anylayer.writers import Writer

Open = Callable[[Written], Run]
"""A function that opens written files, to run them."""
Write = Callable[[Job, Mapping[str, str], str], Written]
"""A function that writes a job with outputs (public name to value) into a temporary folder of a name."""
OpenInner = Callable[[Written, Sequence[str]], Run]
"""A function that opens written files. The function that it returns also computes values inside the network, by
name."""

_MAX_SHALLOW_SUMS = 20
"""A network with more operators of WEIGHTED has the tolerance of deep networks."""
_LAST_DIGITS = 4 * float(np.finfo(np.float32).eps)
"""The largest relative change of a value that rounding inside a node may cause."""
_ROUNDINGS = 16
"""The number of times that values are changed in their last digits and compared again."""
_MAX_ROUNDING = 1e-2
"""The largest tolerance that may follow from the rounding of float32, relative to the largest value."""
_ROUNDING_FACTOR = 4
"""A file may differ by this many times the source's own rounding error: engines add in another order, and some
compute convolutions by transformations that round more."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of written files with their source, for the outputs (public name to value) of a job.

    Outputs that depend on discontinuous operators (arg-max, NMS) may differ by any amount where rounding changes a
    selection. Then the values before these operators are compared. In float32, what follows is compared with
    NumPy on the values of the file. `write` writes the network with these outputs into a folder of this name.
    `on_noise` says that the inputs are noise, not data of the user.
    """

    job: Job
    source: Source
    outputs: Mapping[str, str]
    open: Open
    write: Write
    tolerance: float
    on_noise: bool = False

    def compare(
        self, written: Written, inputs: Sequence[Mapping[str, Array]], *, deeper: bool = True
    ) -> list[OutputCheck]:
        """Run the source and the file on the same inputs, and return a check per set of inputs, runtime and
        output. deeper: whether to compare more where an output tells little."""
        runs = {"": self.open(written), **{name: opened() for name, opened in written.runtimes.items()}}
        network = self.job.network
        runner = NumpyRunner(network, self.job.definitions, self.outputs)
        others = wording("verify={...}, or verify=False", "-i, or --no-verify")
        jumps = self.jumps(written)
        with_values = cache(self._with_values)
        checks = []
        for at, given in enumerate(inputs):
            with adding_advice(f"The inputs to compare on do not suit the network; give other inputs: {others}"):
                want = runner([given[name] for name in network.inputs], {})
            sizes = {n: given[n].shape for n in self.job.sizes.shapes} if self.job.sizes is not None else None
            for run_by, run in runs.items():
                with adding_advice(_limit_sizes(sizes)) if sizes else nullcontext():
                    found = self.checks_of(want, run, written, given, deep=bool(run_by))
                free: dict[str, Any] = {"ok": True, "tolerance": math.inf, "rule": UNLIMITED}
                found = [replace(c, **free) if c.name in jumps and not c.note else c for c in found]
                if not run_by and written.precision == "float32":
                    found = self._split(found, with_values, given)
                checks += [replace(check, sizes=sizes, run_by=run_by, at=at) for check in found]
                weak = [c.name for c in found if c.ok and not c.tells]
                if weak and deeper and not run_by and written.precision != "int8":
                    alone = at == 0 and written.precision == "float32"
                    more = deeper_checks(self, weak, given, with_values, alone=alone)
                    checks += [replace(c, sizes=sizes if c.part == "before" else None, at=at) for c in more]
            if written.by_sample:
                got = _run_samples(runs[""], written, given)
                found = _output_checks(want, got, written, max(self.tolerance, written.tolerance))
                found = [c if c.ok else replace(c, note=f"{c}; {written.by_sample}") for c in found]
                checks += [replace(check, sizes=sizes, run_by="single samples", at=at) for check in found]
        return checks

    def checks_of(
        self,
        want: Mapping[str, Array],
        run: Run,
        written: Written,
        given: Mapping[str, Array],
        *,
        deep: bool = False,
    ) -> list[OutputCheck]:
        """Run a file, and return a check per output, by the first rule that it passes by.

        deep: whether the tolerance is at least that of deep networks. A constant output tells enough.
        """
        tolerance = max(self.tolerance, written.tolerance, DEEP_TOLERANCE if deep else 0.0)
        found = _output_checks(want, _run_file(run, written, given), written, tolerance)
        values = dict(zip(self.source.outputs, self.source.graph.outputs))
        constant = {name for name, value in values.items() if value.const is not None}
        found = [replace(c, tells=True) if c.name in constant else c for c in found]
        if written.precision != "float32":
            return found
        return self._by_rounding([self._by_floor(c, values) for c in found], want, given)

    def _by_floor(self, check: OutputCheck, values: Mapping[str, Value]) -> OutputCheck:
        """Return a check. An output that differs by the rounding of its range, such as 0 to 1 after a sigmoid,
        passes; it tells little then."""
        value = values.get(check.name)
        if check.ok or check.note or value is None:
            return check
        floor = range_rounding(value, self.source.graph.producers)
        if check.error > floor:
            return check
        return replace(check, ok=True, tolerance=floor / check.scale, rule=FLOOR, tells=False)

    def _by_rounding(
        self, found: list[OutputCheck], want: Mapping[str, Array], given: Mapping[str, Array]
    ) -> list[OutputCheck]:
        """Return the checks. Outputs that differ a little get a tolerance that follows from their own rounding.

        It is _ROUNDING_FACTOR times the difference between the source in float32 and in float64: if large terms
        cancel each other, or a small number is divided by, the error of float32 itself may exceed the tolerance.
        """
        near = [c for c in found if not c.ok and not c.note and c.error <= _MAX_ROUNDING * c.scale]
        if not near or self.job.network.dtype not in (None, np.float32):
            return found
        try:
            exact = self._in_float64(given)
        except AnyLayerError:  # a layer of the user may not compute in float64
            return found
        wider = {}
        for c in near:
            rounding = _ROUNDING_FACTOR * largest_error(want[c.name], exact[c.name]) / c.scale
            tolerance = min(max(c.tolerance, rounding), _MAX_ROUNDING)
            wider[c.name] = replace(c, tolerance=tolerance, ok=c.error <= tolerance * c.scale, rule=FLOAT64)
        return [wider.get(c.name, c) for c in found]

    def _in_float64(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of the source, computed in float64."""

        def wide(x: Array) -> Array:
            return x.astype(np.float64) if x.dtype == np.float32 else x

        network = self.job.network
        nodes = [replace(node, blobs=[wide(np.asarray(b)) for b in node.blobs]) for node in network.nodes]
        network = replace(network, nodes=nodes, dtype=np.dtype(np.float64) if network.dtype is not None else None)
        runner = NumpyRunner(network, self.job.definitions, self.outputs)
        return runner([wide(given[name]) for name in network.inputs], {})

    def _with_values(self, names: tuple[str, ...]) -> tuple[Written, Run]:
        """Write the network with values inside it as additional outputs, except constants, and open it."""
        source = self.job.source({n: n for n in names})
        computed = {n: n for n, v in zip(source.outputs, source.graph.outputs) if v.const is None}
        written = self.write(self.job, {**self.outputs, **computed}, "before")
        return written, self.open(written)

    def _split(
        self, found: list[OutputCheck], with_values: WithValues, given: Mapping[str, Array]
    ) -> list[OutputCheck]:
        """Return the checks. Outputs that differ after a discontinuous operator are compared in two parts.

        The values that these operators' nodes read must match those of the source. The outputs must match what the
        layers compute in NumPy from the values of the file, or from the same values with changed last digits,
        because a node may itself compute the numbers by which it selects, such as boxes from a map. Rows of almost
        equal rank may be exchanged.
        """
        after, read = after_jumps(self.source)
        apart = {c.name: self.outputs[c.name] for c in found if not c.ok and self.outputs[c.name] in after}
        if not apart or not read:
            return found
        written, run = with_values(tuple(read))
        got = _run_file(run, written, given)
        before = {n: array for n in read if (array := _of_file(n, got, written)) is not None}
        checks = _output_checks(self._numpy({n: n for n in before}, given), got, written, self.tolerance)
        if not before or written.transposed or not all(c.ok for c in checks):
            return found
        parts: dict[str, OutputCheck] = {}
        for near in _rounded(before):
            left = {name: value for name, value in apart.items() if name not in parts}
            if not left:
                break
            want = self._numpy(left, given, near)
            for c in _output_checks(want, got, written, self.tolerance):
                own = _of_file(c.name, got, written)
                error = c.error if c.ok else error_of_rows(want[c.name], own, c.tolerance)
                if error <= c.tolerance * c.scale:
                    parts[c.name] = replace(c, error=error, ok=True, note="", rule=SELECTION)
        return [parts.get(c.name, c) for c in found]

    def numpy(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs that the source computes in NumPy."""
        return self._numpy(self.outputs, given)

    def _numpy(
        self,
        outputs: Mapping[str, str],
        given: Mapping[str, Array],
        known: Mapping[str, Array] = MappingProxyType({}),
    ) -> dict[str, Array]:
        """Return outputs that are computed in NumPy from the inputs.

        known: values by name. They are used as they are, and the nodes that compute them are not run.
        """
        feed = {**given, **known}
        nodes = [node for node in self.job.network.nodes if not {*node.outputs} & {*known}]
        types = {n: TensorType.of(x.shape, x.dtype) for n, x in feed.items()}
        network = replace(self.job.network, inputs={**types}, nodes=nodes)
        runner = NumpyRunner(network, self.job.definitions, outputs)
        return runner([feed[n] for n in needed_inputs(network, outputs)], {})

    def jumps(self, written: Written) -> set[str]:
        """Return the outputs of a file in low precision that depend on discontinuous operators."""
        if written.precision == "float32":
            return set()
        after, _ = after_jumps(self.source)
        return {name for name, value in self.outputs.items() if value in after}

    def jump_notes(self, written: Written) -> list[str]:
        """Return a note for each output that depends on discontinuous operators, in low precision."""
        return [
            f"output '{name}' depends on values that are ordered, selected or compared, which small errors may "
            "change; its own error has no limit, but the values before are compared"
            for name in sorted(self.jumps(written))
        ]

    def compare_nodes(
        self, written: Written, given: Mapping[str, Array], open_inner: OpenInner, path: Path
    ) -> list[NodeError]:
        """Return the errors of the nodes of a file in low precision.

        Raises ConversionError if a node with a discontinuous operator has an input whose error exceeds the
        tolerance. path: where the caller wants the file.
        """
        names = {n: n for t in self.source.nodes for n in t.node.outputs}
        runner = NumpyRunner(self.job.network, self.job.definitions, names)
        want = runner([given[name] for name in self.job.network.inputs], {})
        got = _run_file(open_inner(written, [*names]), written, given)
        errors = node_errors(self.source, want, got)
        for name in after_jumps(self.source)[1]:
            if name in got and name in want and want[name].shape == got[name].shape:
                tolerance = max(self.tolerance, written.tolerance)
                check = compare(name, want[name], got[name], tolerance, rms=written.precision == "int8")
                if not check.ok:
                    raise ConversionError(self.explain_cost(check, errors), str(path))
        return errors

    def explain_cost(self, bad: OutputCheck, errors: Sequence[NodeError]) -> str:
        """Return a text that says how a value of a file in low precision differs, and which node adds most to the
        error.
        """
        text = f"'{bad.name}' differs from the source: {bad}; {bad.limit}"
        worst = costliest(errors, self.source)
        if worst is None:
            return text
        remedy = wording(f"float32=[{worst.name!r}]", f"--float32 {worst.name}")
        return (
            f"{text}. The node that costs most is '{worst.name}' ({worst.type}): it adds {worst.added:.3g} to the "
            f"relative error of its inputs. Keep it in float32 where the format can ({remedy})"
        )

    def require_equal(
        self,
        checks: Sequence[OutputCheck],
        inputs: Sequence[Mapping[str, Array]],
        path: Path,
        errors: Sequence[NodeError] | None = None,
    ) -> None:
        """Raise ConversionError for the first check that is not ok.

        checks: the result of `compare` for `inputs`. path: where the caller wants the file. errors: the errors of
        the nodes, for a file in low precision.
        """
        for check in checks:
            if not check.ok and errors is not None and not check.note:
                raise ConversionError(f"output {self.explain_cost(check, errors)}", str(path))
            if not check.ok:
                advice = f". The inputs are noise; {real_data()}" if self.on_noise else ""
                raise ConversionError(self._explain(check, inputs[check.at]) + advice, str(path))

    def _explain(self, bad: OutputCheck, given: Mapping[str, Array]) -> str:
        """Return a text that says how an output differs, and names the first node whose output in the file
        differs.

        To find the node, the network is written again, with the output of every node as an output of the file.
        """
        job = self.job
        where = f" in {bad.run_by}" if bad.run_by else ""
        text = f"{bad.title} differs{where} from the source: {bad}; {bad.limit}"
        if bad.part == "alone":
            return text
        producers: dict[str, Node] = {
            name: node for node in needed_nodes(job.network, self.outputs) for name in node.outputs
        }
        try:
            source = job.source({name: name for name in producers})
            computed = {n: n for n, v in zip(source.outputs, source.graph.outputs) if v.const is None}
            written = self.write(job, computed, "all")
            checks = replace(self, outputs=computed).compare(written, [given], deeper=False)
        except AnyLayerError as error:
            return f"{text}. The node that differs cannot be found: {error}"
        first = next((c for c in checks if not c.ok), None)
        if first is None:
            return f"{text}. No node differs when the output of every node is an output of the file"
        node = producers[first.name]
        return f"{text}. The first node that differs is '{node.name}' ({node.type}): {first}"


def _rounded(values: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
    """Yield the arrays, then copies whose floats have other last digits, as another rounding would give them."""
    yield values
    noise = np.random.default_rng(0)
    for _ in range(_ROUNDINGS):
        yield {
            name: x * (1 + _LAST_DIGITS * noise.uniform(-1, 1, x.shape)).astype(x.dtype)
            if x.dtype.kind == "f"
            else x
            for name, x in values.items()
        }


def opener(writer: Writer, reopen: Open) -> Open:
    """Return the function that opens the files of a writer, so that they can be run.

    reopen: the function for files that no runtime reads. It reads them with anylayer.read and runs them in NumPy.
    """
    if writer.RUNS == "numpy":
        return reopen
    engine: Any = load_engine(writer.RUNS)
    return lambda written: engine.open_file(written.stand_in or written.files[-1])


def inner_opener(writer: Writer) -> OpenInner:
    """Return the function that opens the files of a writer such that they also return the named values inside the
    network.
    """
    engine: Any = load_engine(writer.RUNS)
    return lambda written, values: engine.open_file(written.files[-1], values)


def tolerance_of(graph: Graph) -> float:
    """Return the tolerance for the outputs of a graph, relative to their largest values."""
    half = any(v.dtype == np.float16 for o in graph.ops for v in o.outputs)
    dtype = np.dtype(np.float16 if half else np.float32)
    return tolerance_for(dtype, deep=_sums(graph) > _MAX_SHALLOW_SUMS)


def _sums(graph: Graph) -> int:
    """Count the operators that sum up many values, in a graph and in the bodies of its calls."""
    return sum(_sums(o.body) if o.body is not None else o in WEIGHTED for o in graph.ops)


def _run_file(run: Run, written: Written, given: Mapping[str, Array]) -> dict[str, Array]:
    """Run a file on inputs by their names in the source, and return its outputs by their names in the file."""
    feed = {}
    for name, array in given.items():
        transposed = _as_written(name, array, written)
        dtype = written.io if written.io is not None and array.dtype == np.float32 else array.dtype
        feed[written.renamed.get(name, name)] = np.asarray(transposed, dtype, order="C")
    return run(feed)


def _run_samples(run: Run, written: Written, given: Mapping[str, Array]) -> dict[str, Array]:
    """Run a file on each sample of a batch separately, and return the concatenated outputs."""
    count = len(next(iter(given.values())))
    parts = [_run_file(run, written, {n: x[i : i + 1] for n, x in given.items()}) for i in range(count)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _of_file(name: str, got: Mapping[str, Array], written: Written) -> Array | None:
    """Return an output of a file by its name in the source, None where the file has no such output."""
    return got.get(written.outputs.get(name) or written.renamed.get(name, name))


def _as_written(name: str, array: Array, written: Written) -> Array:
    """Return an input or output of the source in the order of axes that it has in the file."""
    permutation = written.transposed.get(name)
    return array if permutation is None else array.transpose(permutation)


def _limit_sizes(sizes: Mapping[str, Sequence[int]]) -> str:
    """Return what to do about an engine that fails at open sizes."""
    at_sizes = ", ".join(f"{name} {tuple(shape)}" for name, shape in sizes.items())
    return f"The sizes were {at_sizes}. If the network does not take such sizes, give a range (H>=64)"


def _output_checks(
    want: Mapping[str, Array], got: Mapping[str, Array], written: Written, tolerance: float
) -> list[OutputCheck]:
    checks = []
    for name, array in want.items():
        found = _of_file(name, got, written)
        if found is None:
            note = f"the file has no such output; it has {', '.join(got)}"
            checks.append(OutputCheck(name, math.inf, 0.0, tolerance, False, note))
        else:
            rms = written.precision == "int8"
            checks.append(compare(name, _as_written(name, array, written), found, tolerance, rms=rms))
    return checks
