"""Write a network as a file of another format. The file is verified against the network, then moved into place."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from anylayer.compile.choices import conditions_text, verified_sizes
from anylayer.convert.checks import OutputCheck
from anylayer.convert.folder import folder_beside
from anylayer.convert.job import Job
from anylayer.convert.nodes import NodeError
from anylayer.convert.regimes import REGIMES, tolerance_of, weak_checks
from anylayer.convert.verification import Open, Verification, inner_opener, opener
from anylayer.errors import (
    ConversionError,
    EngineError,
    FileError,
    InputError,
    LayerError,
    nearest,
    need,
    need_name,
    within,
    writing,
)
from anylayer.libraries.whole import need_file
from anylayer.network import Array, Network
from anylayer.source import Source, Written, layer_notes, lost_effects
from anylayer.writers import Writer

Prove = Callable[[Written], None]
"""A function that compares the parameters in written files with the source's."""


@dataclass(slots=True)
class Conversion:
    """The result of `Net.write`.

    `files` are the written files; the last one is the file to open. `checks` holds the comparison of each output
    at every batch size that was tried. If nothing was compared, it is empty and `unchecked` says why. `runs` names
    the runtime that ran the file. `notes` are for the user. `nodes` are the errors of the nodes in an int8 file.
    """

    format: str
    files: list[Path]
    checks: list[OutputCheck] = field(default_factory=list)
    runs: str = ""
    unchecked: str = ""
    notes: list[str] = field(default_factory=list)
    nodes: list[NodeError] = field(default_factory=list)

    @property
    def accepted_by(self) -> list[str]:
        """The names of the rules that accepted the outputs, the strictest first: see regimes.REGIMES."""
        used = {c.rule for c in self.checks}
        return [rule.name for rule in REGIMES if rule.name in used]

    def to_dict(self) -> dict[str, Any]:
        """Return the conversion as plain values, for JSON."""
        return {
            "format": self.format,
            "files": [str(f) for f in self.files],
            "compared_with": self.runs,
            "not_compared": self.unchecked,
            "accepted_by": self.accepted_by,
            "outputs": [
                {
                    **{n: getattr(c, n) for n in ("name", "error", "scale", "tolerance", "ok", "rule", "part")},
                    "sizes": None if c.sizes is None else {n: list(s) for n, s in c.sizes.items()},
                    "run_by": c.run_by or self.runs.split(", ")[0],
                }
                for c in self.checks
            ],
            "notes": self.notes,
            **({"nodes": [asdict(n) for n in self.nodes]} if self.nodes else {}),
        }


def convert(
    job: Job,
    outputs: Mapping[str, str],
    writer: Writer,
    format: str,
    path: Path,
    inputs: Sequence[Mapping[str, Array]] | None,
    reopen: Open,
    prove: Prove,
) -> Conversion:
    """Write the network as `path` and the files that belong to it, verify them, and move them into place.

    outputs: public name to value. inputs: the sets of inputs on which the file is compared with the source's
    layers in NumPy; None for seeded noise; an empty sequence verifies nothing. reopen: reads written files with
    anylayer.read, for writers whose RUNS is "numpy". prove: compares the parameters in the files with the
    source's.

    Raises what tracing and the writer raise, FileError where a file cannot be written, and ConversionError where
    an output differs or the memory does not suffice. Then no file is left.
    """
    need_name(path, utf8=True)
    with writing(str(path)):
        is_folder = getattr(writer, "FOLDER", False)
        folder = _temporary_folder(path, is_folder)
        try:
            source = job.source(outputs)
            on_noise = inputs is None and not job.options.get("calibrate")
            inputs = job.inputs_to_compare(source.sizes) if inputs is None else inputs
            try:
                written = writer.write(source, folder / path.name, **job.options)
            except (EngineError, LayerError):
                with within(job.network.source):
                    raise
            targets = {file: path.parent / file.relative_to(folder) for file in written.files}
            _keep_source(job.network, targets)
            _keep_settings({file: targets[file] for file in written.settings})
            notes = [*source.network.notes, *written.notes, *layer_notes(source.nodes)]
            notes += [*lost_effects(source.nodes), *_conditions(source)]
            conversion = Conversion(format, list(targets.values()), notes=notes)
            if inputs:
                prove(written)
            if not inputs:
                conversion.unchecked = "not asked for"
            elif written.unrun:
                conversion.unchecked = written.unrun
            else:
                _verify(
                    conversion,
                    Verification(
                        job,
                        source,
                        outputs,
                        opener(writer, reopen),
                        partial(_write_again, writer, folder, path.name),
                        tolerance_of(source.graph),
                        on_noise,
                    ),
                    writer,
                    written,
                    inputs,
                    path,
                )
            conversion.notes += weak_checks(conversion.checks)
            for file, target in targets.items():
                target.parent.mkdir(parents=True, exist_ok=True)
                file.replace(target)
        except MemoryError as error:
            raise ConversionError(
                f"there is not enough memory to write and compare it: {error}", str(path)
            ) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return conversion


def _verify(
    conversion: Conversion,
    verification: Verification,
    writer: Writer,
    written: Written,
    inputs: Sequence[Mapping[str, Array]],
    path: Path,
) -> None:
    """Compare the written files with the source, and complete the report. Raises ConversionError.

    path: where the caller wants the file.
    """
    conversion.runs = ", ".join([writer.RUNS, *written.runtimes])
    conversion.checks = verification.compare(written, inputs)
    low, right = written.precision != "float32", all(c.ok for c in conversion.checks)
    errors = None
    if low and (written.precision == "int8" or not right or verification.jumps(written)):
        errors = verification.compare_nodes(written, inputs[0], inner_opener(writer), path)
    verification.require_equal(conversion.checks, inputs, path, errors)
    if not low and verification.only_selects():
        verification.require_selections(written, inputs[0], path)
    conversion.nodes = errors if errors is not None and written.precision == "int8" else []


def _write_again(
    writer: Writer, folder: Path, name: str, job: Job, outputs: Mapping[str, str], inner: str
) -> Written:
    """Write the network once more, with other outputs, to the file `name` in a new folder inside `folder`, whose
    name begins with `inner`.
    """
    place = Path(tempfile.mkdtemp(prefix=f"{inner}.", dir=folder))
    return writer.write(job.source(outputs), place / name, **job.options)


def _conditions(source: Source) -> list[str]:
    """Return a note on the conditions that open sizes must fulfil, if there are any."""
    if source.sizes is None:
        return []
    text = conditions_text(source.sizes)
    notes = [f"the sizes must fulfil: {text}"] if text else []
    if not verified_sizes(source.sizes):
        notes.append("no sizes that fulfil the conditions were found, except for those that were traced")
    return notes


def _temporary_folder(path: Path, is_folder: bool) -> Path:
    """Make a folder beside `path` for files that are not verified yet. is_folder: whether `path` is a folder."""
    if is_folder:
        need(path.is_dir() or not path.exists(), f"{path} is a file, but the output is a folder", InputError)
    else:
        _need_folder(path)
        need_file(path)
    return folder_beside(path)


def _need_folder(path: Path) -> None:
    """Raise FileError if the folder of `path` does not exist: its name may be misspelled, so it is not created."""
    above = path.parent
    if not above.exists() and next(p for p in above.parents if p.exists()).is_dir():
        others = [p.name for p in above.parent.iterdir() if p.is_dir()] if above.parent.is_dir() else []
        raise FileError(
            f"cannot be written: there is no folder '{above}'{nearest(above.name, others) or '. Create it first'}",
            str(path),
        )


def _keep_source(network: Network, targets: Mapping[Path, Path]) -> None:
    """Raise InputError if a conversion would replace a source file. `targets`: written file -> destination."""
    sources = [Path(name) for name in (network.source, network.weights) if name]
    for target in targets.values():
        for source in sources:
            need(
                not (target.exists() and source.exists() and target.samefile(source)),
                f"{target} is a file of the source and would be lost; give another name",
                InputError,
            )


def _keep_settings(targets: Mapping[Path, Path]) -> None:
    """Raise InputError for a file that people edit (as config.pbtxt) unless its content stays the same."""
    for file, target in targets.items():
        need(
            not target.exists() or target.read_bytes() == file.read_bytes(),
            f"{target} exists and has other settings, perhaps yours: remove it, or write another folder",
            InputError,
        )
