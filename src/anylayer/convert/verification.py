"""Verification of written files: compare what a file computes with the source's layers in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from anylayer.compile.comparison import SELECTING, selecting
from anylayer.compile.inputs import needed_nodes
from anylayer.compile.noise import real_data
from anylayer.convert.checks import OutputCheck, compare, output_checks, run_file
from anylayer.convert.deeper import deeper_checks
from anylayer.convert.job import Job
from anylayer.convert.nodes import NodeError, after_jumps, costliest, node_errors
from anylayer.convert.regimes import Comparison, WithValues
from anylayer.engines import load_engine
from anylayer.errors import AnyLayerError, ConversionError, adding_advice, wording
from anylayer.graph.operators import WEIGHTED, selects
from anylayer.network import Array, Node
from anylayer.numerics import DEEP_TOLERANCE
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


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of written files with their source, for the outputs (public name to value) of a job.

    regimes.REGIMES lists the rules by which an output passes. `write` writes the network with these outputs into a
    folder of this name. `on_noise` says that the inputs are noise, not data of the user.
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
        runner = NumpyRunner(self.job.network, self.job.definitions, self.outputs)
        others = wording("verify={...}, or verify=False", "-i, or --no-verify")
        with_values = cache(self._with_values)
        checks = []
        for at, arrays in enumerate(inputs):
            with adding_advice(f"The inputs to compare on do not suit the network; give other inputs: {others}"):
                want = runner.run(arrays)
            sizes = {n: arrays[n].shape for n in self.job.sizes.shapes} if self.job.sizes is not None else None
            for run_by, run in runs.items():
                with adding_advice(_limit_sizes(sizes)) if sizes else nullcontext():
                    run_checks = self.checks_of(
                        want, run, written, arrays, None if run_by else with_values, deep=bool(run_by)
                    )
                checks += [replace(check, sizes=sizes, run_by=run_by, at=at) for check in run_checks]
                weak = [c.name for c in run_checks if c.ok and not c.tells]
                if weak and deeper and not run_by and written.precision != "int8":
                    alone = at == 0 and written.precision == "float32"
                    more = deeper_checks(self, weak, arrays, with_values, alone=alone)
                    checks += [replace(c, sizes=sizes if c.part == "before" else None, at=at) for c in more]
            if written.by_sample:
                results = _run_samples(runs[""], written, arrays)
                run_checks = output_checks(want, results, written, max(self.tolerance, written.tolerance))
                run_checks = [c if c.ok else replace(c, note=f"{c}; {written.by_sample}") for c in run_checks]
                checks += [replace(check, sizes=sizes, run_by="single samples", at=at) for check in run_checks]
        return checks

    def only_selects(self) -> bool:
        """Return whether the user's layers select elements and no layer has weights: the inputs decide then."""
        source = self.source
        bodies = [t.body for t in source.nodes if t.node.type in source.user_types and t.body is not None]
        return any(map(selects, bodies)) and not any(o in WEIGHTED for o in source.graph.ops)

    def require_selections(self, written: Written, noise: Mapping[str, Array], path: Path) -> None:
        """Compare a file that selects elements for inputs for which layers may select nothing, or everything.

        noise: inputs. Inputs that the layers in NumPy refuse are left out, and those for which they compute
        infinite numbers or NaN. Raises ConversionError, or the error of the runtime.
        """
        runner = NumpyRunner(self.job.network, self.job.definitions, self.outputs)
        for at in range(len(SELECTING)):
            arrays = {name: selecting(x, at) for name, x in noise.items()}
            try:
                results = runner.run(arrays)
            except AnyLayerError:
                continue
            if not all(np.isfinite(y).all() for y in results.values()):
                continue
            with adding_advice("For these inputs a layer may select nothing; the layers in NumPy compute them"):
                checks = self.compare(written, [arrays], deeper=False)
            self.require_equal(checks, [arrays], path, None)

    def checks_of(
        self,
        want: Mapping[str, Array],
        run: Run,
        written: Written,
        inputs: Mapping[str, Array],
        with_values: WithValues | None = None,
        *,
        deep: bool = False,
    ) -> list[OutputCheck]:
        """Run a file, and return a check per output, by the first rule that accepts it.

        with_values: see regimes.Comparison. deep: whether the tolerance is at least that of deep networks.
        """
        tolerance = max(self.tolerance, written.tolerance, DEEP_TOLERANCE if deep else 0.0)
        return Comparison(self, written, inputs, want, run_file(run, written, inputs), with_values).judged(
            tolerance
        )

    def _with_values(self, names: tuple[str, ...]) -> tuple[Written, Run]:
        """Write the network with values inside it as additional outputs, except constants, and open it."""
        written = self.write(self.job, {**self.outputs, **self._computed(names)}, "before")
        return written, self.open(written)

    def _computed(self, names: Iterable[str]) -> dict[str, str]:
        """Return those of some values inside the network that are not constants, as outputs of their own names."""
        source = self.job.source({n: n for n in names})
        return {n: n for n, v in zip(source.outputs, source.graph.outputs) if v.const is None}

    def numpy(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, str] | None = None,
        values: Mapping[str, Array] = MappingProxyType({}),
    ) -> dict[str, Array]:
        """Return outputs (by default all) that the source computes in NumPy from the inputs.

        values: values by name. They are used as they are, and the nodes that compute them are not run.
        """
        return self.job.numpy(inputs, self.outputs if outputs is None else outputs, values)

    def in_float64(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, str] | None = None,
        values: Mapping[str, Array] = MappingProxyType({}),
    ) -> dict[str, Array]:
        """Return what `numpy` returns, computed in float64."""
        outputs = self.outputs if outputs is None else outputs
        return self.job.in_float64(inputs, outputs, values)

    def jumps(self, written: Written) -> set[str]:
        """Return the outputs of a file in low precision that depend on discontinuous operators."""
        if written.precision == "float32":
            return set()
        after, _ = after_jumps(self.source)
        return {name for name, value in self.outputs.items() if value in after}

    def compare_nodes(
        self, written: Written, inputs: Mapping[str, Array], open_inner: OpenInner, path: Path
    ) -> list[NodeError]:
        """Return the errors of the nodes of a file in low precision.

        Raises ConversionError if a node with a discontinuous operator has an input whose error exceeds the
        tolerance. path: where the caller wants the file.
        """
        names = {n: n for t in self.source.nodes for n in t.node.outputs}
        want = NumpyRunner(self.job.network, self.job.definitions, names).run(inputs)
        results = run_file(open_inner(written, [*names]), written, inputs)
        errors = node_errors(self.source, want, results)
        for name in after_jumps(self.source)[1]:
            if name in results and name in want and want[name].shape == results[name].shape:
                tolerance = max(self.tolerance, written.tolerance)
                check = compare(name, want[name], results[name], tolerance, rms=written.precision == "int8")
                if not check.ok:
                    raise ConversionError(self.explain_cost(check, errors), str(path))
        return errors

    def explain_cost(self, bad: OutputCheck, errors: Sequence[NodeError]) -> str:
        """Return a text on how a value of a file in low precision differs, and which node adds most to it."""
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

    def _explain(self, bad: OutputCheck, inputs: Mapping[str, Array]) -> str:
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
            computed = self._computed(producers)
            written = self.write(job, computed, "all")
            checks = replace(self, outputs=computed).compare(written, [inputs], deeper=False)
        except AnyLayerError as error:
            return f"{text}. The node that differs cannot be found: {error}"
        first = next((c for c in checks if not c.ok), None)
        if first is None:
            return f"{text}. No node differs when the output of every node is an output of the file"
        node = producers[first.name]
        return f"{text}. The first node that differs is '{node.name}' ({node.type}): {first}"


def opener(writer: Writer, reopen: Open) -> Open:
    """Return the function that opens the files of a writer, so that they can be run.

    reopen: the function for files that no runtime reads. It reads them with anylayer.read and runs them in NumPy.
    """
    if writer.RUNS == "numpy":
        return reopen
    engine: Any = load_engine(writer.RUNS)
    return lambda written: engine.open_file(written.stand_in or written.files[-1])


def inner_opener(writer: Writer) -> OpenInner:
    """Return a function that opens files of a writer such that they also return values inside the network."""
    engine: Any = load_engine(writer.RUNS)
    return lambda written, values: engine.open_file(written.files[-1], values)


def _run_samples(run: Run, written: Written, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run a file on each sample of a batch separately, and return the concatenated outputs."""
    count = len(next(iter(inputs.values())))
    parts = [run_file(run, written, {n: x[i : i + 1] for n, x in inputs.items()}) for i in range(count)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _limit_sizes(sizes: Mapping[str, Sequence[int]]) -> str:
    """Return what to do about an engine that fails at open sizes."""
    at_sizes = ", ".join(f"{name} {tuple(shape)}" for name, shape in sizes.items())
    return f"The sizes were {at_sizes}. If the network does not take such sizes, give a range (H>=64)"
