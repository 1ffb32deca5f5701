"""Find the dialect of a file by an example of its outputs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.arrays import read_npy, read_npz
from anylayer.cli.command import (
    echo,
    input_option,
    json_option,
    make_command,
    network_options,
    read_net,
    say,
    shape_option,
    shapes_of,
    show,
    terminal_width,
)
from anylayer.cli.files import to_json
from anylayer.cli.inputs import Loader
from anylayer.cli.progress import progress
from anylayer.compile.inputs import input_types
from anylayer.errors import InputError, need, some
from anylayer.inspect.tables import Column, wrap_lines

if TYPE_CHECKING:
    from anylayer import Net
    from anylayer.inspect.identification import Identification
    from anylayer.network import Array

_COLUMNS = (Column("meaning", 12, "wrap"), Column("difference"), Column("why", 12, "wrap"))


@make_command("anylayer identify net.prototxt net.caffemodel -i in.npz --expect out.npz")
@network_options
@input_option("an .npz with an array per input, an .npy, or an image")
@click.option(
    "--expect",
    multiple=True,
    required=True,
    metavar="[NAME=]FILE",
    help="What the original program computes: an .npz with arrays by the names of blobs, inner blobs too, or an "
    ".npy of the only output or of blob NAME.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1, min_open=True),
    default=1e-4,
    metavar="T",
    help="The largest difference of a reproduced blob, relative to its largest value [0.0001].",
)
@shape_option
@json_option
def command(expect: tuple[str, ...], tolerance: float, as_json: bool, quiet: bool, **options: Any) -> None:
    """Run every meaning of each ambiguous layer, and name the dialect that reproduces the numbers.

    If no dialect does, values that the file leaves out are tried, too: the rounding of Pooling, eps, offsets of
    Crop. If nothing reproduces the numbers, the first blob that differs is shown, and the exit status is 1. With
    inner blobs in --expect, this is the layer to look at. With --dialect, only that dialect is tried.
    """
    from anylayer.inspect.identify import identify

    def read_in(dialect: str | None) -> Net:
        return read_net({**options, "dialect": dialect or options["dialect"]})

    with progress(0, quiet, "layers") as (count, _, _):
        identification = identify(
            read_in, lambda net: (_inputs(net, options), _expected_outputs(net, expect)), tolerance, count
        )
    if as_json:
        echo(to_json(_json_data(identification)))
    else:
        _show(identification, quiet)
        if identification.ok and not identification.writes:
            echo(f"  {_run_line(identification, options)}")
    if not identification.ok:
        click.get_current_context().exit(1)


def _inputs(net: Net, options: Mapping[str, Any]) -> dict[str, Array]:
    """Return the arrays of the -i options. Nothing stands for an input that they leave out."""
    shapes = shapes_of(net, options["shapes"])
    types = input_types(net.network, shapes)
    if not options["inputs"]:
        return {}
    return Loader(net, types, shapes=shapes).load_single(options["inputs"]).arrays


def _expected_outputs(net: Net, specs: Sequence[str]) -> dict[str, Array]:
    """Return the arrays of the --expect options by the names of blobs."""
    arrays: dict[str, Array] = {}
    for spec in specs:
        name, equals, rest = spec.partition("=")
        path, blob = (Path(rest), name) if equals and not Path(spec).exists() else (Path(spec), "")
        if path.suffix.lower() == ".npz":
            need(not blob, f"--expect {spec}: an .npz has the names of the blobs; leave out {blob}=", InputError)
            arrays.update(read_npz(path))
            continue
        rule = f"--expect {path}: expected arrays are in an .npz or .npy file"
        need(path.suffix.lower() == ".npy", rule, InputError)
        outputs = list(net.network.outputs)
        rule = f"--expect {path}: the network has several outputs ({some(outputs, 5)}): write NAME={path}"
        need(blob or len(outputs) == 1, rule, InputError)
        arrays[blob or outputs[0]] = read_npy(path)
    return arrays


def _show(identification: Identification, quiet: bool) -> None:
    """Print the dialects that reproduce the blobs, or the first blob that none reproduces, and what to do."""
    width = terminal_width()
    for note in identification.notes:
        say(f"note: {note}", quiet)
    for line in identification.lines():
        for part in wrap_lines(line, width):
            echo(part)
    if identification.attempts:
        rows: dict[tuple[str, str], list[str]] = {}
        for attempt in identification.attempts:
            difference = f"{attempt.error:.1e}" if attempt.error < float("inf") else "-"
            rows.setdefault((difference, attempt.reason), []).append(attempt.text)
        show(_COLUMNS, [("; ".join(texts), *row) for row, texts in rows.items()])
    for remedy in identification.remedies:
        echo(f"-> {remedy}")


def _run_line(identification: Identification, options: Mapping[str, Any]) -> str:
    """Return a command line that computes the expected blobs."""
    words = ["anylayer", "run", str(options["model"])]
    words += [str(options["weights"])] if options["weights"] is not None else []
    for option, values in (("-i", options["inputs"]), ("-l", options["layers"])):
        words += [word for value in values for word in (option, value)]
    dialect = identification.explanations[0].dialect
    words += ["--dialect", dialect] if dialect is not None else []
    words += ["-l", "layers.py"] if identification.classes else []
    words += ["--proto", str(options["proto"])] if options["proto"] is not None else []
    words += ["--phase", options["phase"]] if options["phase"] != "TEST" else []
    return shlex.join([*words, "-o", "out.npz"])


def _json_data(identification: Identification) -> dict[str, Any]:
    first = identification.explanations[0] if identification.explanations else None
    return {
        "ok": identification.ok,
        "dialects": identification.dialects,
        "tried": identification.tried,
        "explanations": [
            {"dialect": e.dialect, "types": dict(e.types), "changes": dict(e.changes)}
            for e in identification.explanations
        ],
        "reproduced": identification.reproduced,
        "first": identification.first or None,
        "place": identification.place or None,
        "attempts": [{"choice": a.text, "difference": a.error, "why": a.reason} for a in identification.attempts],
        "before": identification.before,
        "layers_file": identification.layers_file if first is not None else "",
        "write": [{"layer": c.node.name, "place": c.node.place, "text": c.text} for c in identification.writes],
        "remedies": identification.remedies,
        "notes": identification.notes,
    }
