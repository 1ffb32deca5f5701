"""Write a network as a file of another format, and hold it to its source before it stands where it was wanted."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.compile.batch import with_open_batch
from anylayer.compile.nodes import Definitions, input_arrays, input_types, needed_nodes
from anylayer.compile.whole import Calls, whole
from anylayer.engines import load_engine
from anylayer.errors import (
    AnyLayerError,
    ConversionError,
    FileError,
    InputError,
    LayerError,
    TraceError,
    at,
    nearest,
    need,
    need_name,
    wording,
    writing,
)
from anylayer.folders import load, modules
from anylayer.graph import Graph
from anylayer.network import Array, Network, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.runtime.run import NumpyRunner
from anylayer.source import Run, Source, Written

Open = Callable[[Written], Run]
Reopen = Callable[[Written], Run]
Prove = Callable[[Written], None]

SHALLOW, DEEP = 1e-5, 1e-4
"""The largest difference, of an output's largest value, that rounding may make: in a network of a few layers that
sum up many values, and in one of more than _FEW."""
_FEW = 20
_TELLING = 0.01
"""The least spread of an output, of its largest value, that makes it worth comparing."""
_SUMS = frozenset(("Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN"))


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """How far an output of the file is from the source's: `error` is the largest difference, `scale` the largest
    absolute value; `ok` is error <= tolerance x scale. `note` says what else differs; `samples` is the number
    tried, where the batch is open; `spread` is how far apart the source's values lie; `run_by` is what ran the
    file, where that is not the writer's RUNS."""

    name: str
    error: float
    scale: float
    tolerance: float
    ok: bool
    note: str = ""
    samples: int | None = None
    spread: float | None = None
    run_by: str = ""

    def __str__(self) -> str:
        return self.note or f"off by {self.error:.3g} of {self.scale:.3g}"


@dataclass(slots=True)
class Conversion:
    """What `Net.write` did: `files`, the one to open last; `checks`, one an output (of every batch size that was
    tried), empty where nothing was compared: then `unchecked` says why; `runs`, what ran the file."""

    format: str
    files: list[Path]
    checks: list[OutputCheck] = field(default_factory=list)
    runs: str = ""
    unchecked: str = ""
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "format": self.format,
            "files": [str(f) for f in self.files],
            "compared_with": self.runs,
            "not_compared": self.unchecked,
            "outputs": [
                {
                    "name": c.name,
                    "samples": c.samples,
                    "run_by": c.run_by or self.runs.split(", ")[0],
                    "error": c.error,
                    "scale": c.scale,
                    "tolerance": c.tolerance,
                    "ok": c.ok,
                }
                for c in self.checks
            ],
            "notes": self.notes,
        }


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be written: the network, the types of its inputs, which layers stay calls, the writer's options.
    `batch` names the first size of the inputs `batched`, which stays open."""

    network: Network
    definitions: Definitions
    types: Mapping[str, TensorType | None]
    calls: Calls = field(default_factory=Calls)
    options: Mapping[str, Any] = field(default_factory=dict)
    batch: str = ""
    batched: Collection[str] = ()

    def source(self, outputs: Mapping[str, str]) -> Source:
        """The traced network."""
        if not self.batch:
            return whole(self.network, self.definitions, self.types, outputs, self.calls)
        with _told(f"So it is with {_TRACED_WITH[0]} samples: the batch cannot be left open; give a number"):
            two, three = (
                whole(self.network, self.definitions, self.sized(n), outputs, self.calls) for n in _TRACED_WITH
            )
        with at(self.network.source):
            graph = _opened(two.graph, three.graph, self.batch)
        return replace(two, graph=graph, inputs={v.name: v.type for v in graph.inputs}, batch=self.batch)

    def sized(self, batch: int) -> dict[str, TensorType | None]:
        """The inputs' types with that many samples."""
        return with_batch(self.types, batch, self.batched)

    def fed(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """The inputs given, as arrays of the inputs' types. Raises InputError where one is missing."""
        return input_arrays(self.types, inputs)

    def noise(self, seed: int) -> list[dict[str, Array]]:
        """Seeded inputs to compare on: one set, or one of each of two batch sizes."""
        sizes = [self.sized(n) for n in (1, 2)] if self.batch else [dict(self.types)]
        return [noise(types, seed) for types in sizes]


_TRACED_WITH = (2, 3)
_NOT_THESE = "The inputs to compare on do not suit the network: give others, "


def _opened(two: Graph, three: Graph, name: str) -> Graph:
    """One graph of two, simplified first where that can be: sizes that stay open tell rules less."""
    try:
        return with_open_batch(simplify(two), simplify(three), name)
    except TraceError:
        return with_open_batch(two, three, name)


def job_of(
    network: Network,
    definitions: Definitions,
    shapes: Mapping[str, Sequence[int]] | None,
    writer: Any,
    fmt: str,
    asked: Mapping[str, Any],
) -> Job:
    """The job that the options of Net.write mean. Raises InputError for those that the writer does not take."""
    given = {name: value for name, value in asked.items() if value not in (None, False, (), [])}
    for name in given:
        need(
            name in writer.OPTIONS,
            f"{_option(name)}: {writer.WHAT} has no such option{nearest(name, writer.OPTIONS)}; its options: "
            f"{', '.join(map(_option, sorted(writer.OPTIONS))) or 'none'}",
            InputError,
        )
    functions, keep, batch = given.get("functions", ()), given.get("keep", ()), given.get("batch")
    if functions is True:
        functions = [t for t, found in definitions.items() if any(not d.built_in for d in found)]
    layout: str = getattr(writer, "LAYOUT", "")
    calls = Calls(frozenset(functions) - frozenset(keep), frozenset(keep), layout)
    types = input_types(network, shapes)
    batched = _batched(network, types)
    if type(batch) is int:
        types = with_batch(types, batch, batched)
    name = "N" if batch is True else batch if isinstance(batch, str) else ""
    return Job(network, definitions, types, calls, given, name, batched)


_OPTIONS = {"functions": "functions", "keep": "keep", "batch": "batch", "dialect": "to-dialect"}


def _option(name: str) -> str:
    """A writer's option as it is spelled where the message is read."""
    return wording(name, f"--{_OPTIONS.get(name, f'set {name}')}")


def _batched(network: Network, types: Mapping[str, TensorType | None]) -> list[str]:
    """The inputs whose first size is the number of samples: those that the file leaves open, or else all."""
    left_open = [name for name, shape in network.open.items() if shape and shape[0] is None]
    return left_open or [name for name, kind in types.items() if kind is None or kind.shape]


@contextmanager
def _told(more: str) -> Iterator[None]:
    """Say more behind the message of a layer's error."""
    try:
        yield
    except LayerError as error:
        error.message = f"{error.message}. {more}"
        raise


def with_batch(
    types: Mapping[str, TensorType | None], batch: int, batched: Collection[str]
) -> dict[str, TensorType | None]:
    """The types with `batch` as the first size of the inputs `batched`."""
    sized = dict(types)
    for name in batched:
        known = types[name]
        if known is not None and known.shape:
            sized[name] = TensorType((batch, *known.shape[1:]), known.dtype)
    return sized


def noise(types: Mapping[str, TensorType | None], seed: int) -> dict[str, Array]:
    """Seeded values for inputs: normal ones of variance 1, or 0 and 1 where they are no real numbers."""
    random = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for name, kind in types.items():
        if kind is not None:
            real = kind.dtype.kind == "f"
            values = random.standard_normal(kind.shape, np.float32) if real else random.integers(0, 2, kind.shape)
            arrays[name] = values.astype(kind.dtype)
    return arrays


# -------------------------------------------------------------------- writers


def writers() -> dict[str, Any]:
    """The modules that write files, by format: those whose packages are installed."""
    found = {}
    for name in modules("writers"):
        try:
            module = load("writers", name)
        except ModuleNotFoundError as error:
            _require_foreign(error)
            continue
        if hasattr(module, "WHAT"):
            found[name] = module
    return found


def _require_foreign(error: ModuleNotFoundError) -> None:
    """Raise the error where a module of this package is what is missing."""
    if error.name is None or error.name.split(".")[0] == "anylayer":
        raise error


def load_writer(name: str) -> Any:
    """A format's writer. Raises InputError where there is none."""
    if name in modules("writers"):
        try:
            module = load("writers", name)
            if hasattr(module, "WHAT"):
                return module
        except ModuleNotFoundError as error:
            _require_foreign(error)
            raise InputError(f"to write '{name}': pip install {error.name}") from None
    known = writers()
    raise InputError(f"no format '{name}' is written{nearest(name, known)}; formats: {', '.join(known)}")


def format_of(path: Path) -> str:
    """The format that a file's suffix means. Raises InputError where it means none."""
    known = {suffix: name for name, module in writers().items() for suffix in module.SUFFIXES}
    listed = ", ".join(f"{suffix} ({name})" for suffix, name in known.items())
    need(path.suffix.lower() in known, f"{path}: the suffix tells no format; it is one of {listed}", InputError)
    return known[path.suffix.lower()]


# ----------------------------------------------------------------- converting


def convert(
    job: Job,
    outputs: Mapping[str, str],
    writer: Any,
    fmt: str,
    path: Path,
    inputs: Sequence[Mapping[str, Array]],
    reopen: Reopen,
    prove: Prove,
) -> Conversion:
    """Write the network as `path` and what belongs to it; on each of `inputs` (none: no comparison) the file must
    give what the source's layers give in NumPy. `reopen` reads a file back where the writer's RUNS is "numpy";
    `prove` compares the parameters in the file with the source's.

    Raises what tracing and the writer raise, FileError where the file cannot be written, and ConversionError where
    a value is off; then no file is left.
    """
    need_name(path, utf8=True)
    with writing(str(path)):
        folder = _folder_for(path)
        try:
            source = job.source(outputs)
            written: Written = writer.write(source, folder / path.name, **job.options)
            _keep_source(job.network, path.parent, written)
            done = Conversion(fmt, [path.parent / f.name for f in written.files], notes=list(written.notes))
            if inputs:
                prove(written)
            if not inputs:
                done.unchecked = "not asked for"
            elif written.unrun:
                done.unchecked = written.unrun
            else:
                check = _Check(job, outputs, _opener(writer, reopen), _tolerance(source.graph))
                done.runs = ", ".join([writer.RUNS, *written.runtimes])
                done.checks = check.compared(written, inputs)
                _need_equal(done.checks, check, writer, inputs, folder / path.name, path)
            done.notes += _weak(done.checks)
            for file in written.files:
                (folder / file.name).replace(path.parent / file.name)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return done


def _folder_for(path: Path) -> Path:
    """Make a folder beside `path` for what is not verified yet."""
    need(not path.is_dir(), f"{path} is a folder, a file was to be written there", InputError)
    above = next((p for p in path.parents if p.exists()), path.parent)
    if above.exists() and not above.is_dir():
        raise FileError(f"cannot be written: {above} is not a folder", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f".{path.name[:32]}.", dir=path.parent))


def _need_equal(
    checks: Sequence[OutputCheck],
    check: _Check,
    writer: Any,
    inputs: Sequence[Mapping[str, Array]],
    written: Path,
    path: Path,
) -> None:
    """Raise ConversionError for the first output that differs from the source's."""
    for i, bad in enumerate(checks):
        if not bad.ok:
            given = inputs[i * len(inputs) // len(checks)]
            raise ConversionError(_blame(check, writer, bad, given, written), str(path))


def _keep_source(network: Network, folder: Path, written: Written) -> None:
    """Refuse to put a file where one of the source's own is."""
    sources = [Path(name) for name in (network.source, network.weights) if name]
    for file in written.files:
        target = folder / file.name
        for source in sources:
            need(
                not (target.exists() and source.exists() and target.samefile(source)),
                f"{target} is a file of the source, which would be lost: give another name",
                InputError,
            )


def _weak(checks: Sequence[OutputCheck]) -> list[str]:
    """What to say of outputs that would hardly tell a difference: their values are all but the same."""
    found = {c.name: c for c in checks if c.spread is not None and c.spread < _TELLING * c.scale}
    return [
        f"the values of output '{name}' differ by {c.spread:.3g} of {c.scale:.3g} only, which hides mistakes: "
        "compare on inputs of the network's own kind, " + wording("verify={...}", "-i")
        for name, c in found.items()
    ]


def _opener(writer: Any, reopen: Reopen) -> Open:
    """How a writer's files are run."""
    if writer.RUNS == "numpy":
        return reopen
    engine: Any = load_engine(writer.RUNS)
    return lambda written: engine.open_file(written.stand_in or written.files[-1])


@dataclass(frozen=True, slots=True)
class _Check:
    """Compares files with their source."""

    job: Job
    outputs: Mapping[str, str]
    open: Open
    tolerance: float

    def compared(self, written: Written, inputs: Sequence[Mapping[str, Array]]) -> list[OutputCheck]:
        """Source and file on the same inputs."""
        runs = {"": self.open(written), **{name: opened() for name, opened in written.runtimes.items()}}
        network = self.job.network
        runner = NumpyRunner(network, self.job.definitions, self.outputs)
        checks = []
        for given in inputs:
            with _told(_NOT_THESE + wording("verify={...}, or verify=False", "-i, or --no-verify")):
                want = runner([given[name] for name in network.inputs], {})
            samples = next(len(given[name]) for name in self.job.batched) if self.job.batch else None
            for run_by, run in runs.items():
                tolerance = max(self.tolerance, DEEP) if run_by else self.tolerance
                found = _differences(want, _run_file(run, written, given), written, tolerance)
                checks += [replace(check, samples=samples, run_by=run_by) for check in found]
        return checks


def _tolerance(graph: Graph) -> float:
    """What rounding may make of an output, of its largest value."""
    return SHALLOW if _sums(graph) <= _FEW else DEEP


def _sums(graph: Graph) -> int:
    """How many of the operators, those of what is called included, sum up many values."""
    return sum(_sums(o.body) if o.body is not None else o.op in _SUMS for o in graph.ops)


def _run_file(run: Run, written: Written, given: Mapping[str, Array]) -> dict[str, Array]:
    """The file's outputs, of inputs as the source has them."""
    feed = {}
    for name, array in given.items():
        order = written.transposed.get(name)
        turned = array if order is None else array.transpose(order)
        feed[written.renamed.get(name, name)] = np.ascontiguousarray(turned).reshape(turned.shape)
    return run(feed)


def _differences(
    want: Mapping[str, Array], got: Mapping[str, Array], written: Written, tolerance: float
) -> list[OutputCheck]:
    checks = []
    for name, array in want.items():
        order = written.transposed.get(name)
        turned = array if order is None else array.transpose(order)
        found = got.get(written.outputs.get(name) or written.renamed.get(name, name))
        if found is None:
            note = f"the file has no such output; it has {', '.join(got)}"
            checks.append(OutputCheck(name, math.inf, 0.0, tolerance, False, note))
        else:
            checks.append(compare(name, turned, found, tolerance))
    return checks


def compare(name: str, want: Array, got: Array, tolerance: float) -> OutputCheck:
    """The largest difference of two arrays, and whether it is small beside the first's largest value; NaN equals
    NaN, inf equals inf."""
    finite = np.abs(want[np.isfinite(want)], dtype=np.float64) if want.dtype.kind == "f" else np.abs(want)
    scale = max(float(finite.max(initial=0)), 1e-6)
    if want.shape != got.shape:
        note = f"shape {got.shape}, the source gives {want.shape}"
        return OutputCheck(name, math.inf, scale, tolerance, False, note)
    with np.errstate(invalid="ignore"):
        off = np.asarray(np.abs(got.astype(np.float64) - want.astype(np.float64)))
    off[(got == want) | (np.isnan(want) & np.isnan(got))] = 0
    error = float(np.nan_to_num(off, nan=np.inf).max(initial=0.0))
    spread = float(np.ptp(want[np.isfinite(want)])) if finite.size > 1 and want.dtype.kind == "f" else None
    return OutputCheck(name, error, scale, tolerance, error <= tolerance * scale, spread=spread)


def _blame(check: _Check, writer: Any, bad: OutputCheck, given: Mapping[str, Array], path: Path) -> str:
    """What is wrong with the file: the first node whose value in it differs from the source's."""
    job = check.job
    where = f" in {bad.run_by}" if bad.run_by else ""
    text = f"output '{bad.name}' differs{where} from the source: {bad}, {bad.tolerance:g} of it is allowed"
    nodes = needed_nodes(job.network, check.outputs)
    makers = {name: node for node in nodes for name in node.outputs}
    try:
        source = job.source({name: name for name in makers})
        there = {n: n for n, v in zip(source.outputs, source.graph.outputs) if v.const is None}
        (path.parent / "all").mkdir()
        written = writer.write(job.source(there), path.parent / "all" / path.name, **job.options)
        checks = replace(check, outputs=there).compared(written, [given])
    except AnyLayerError as error:
        return f"{text}. Which node it is could not be told: {error}"
    first = next((c for c in checks if not c.ok), None)
    if first is None:
        return f"{text}. No node differs where each one's value is an output: it is how they were joined"
    node = makers[first.name]
    return f"{text}. The first node that differs is '{node.name}' ({node.type}): {first}"
