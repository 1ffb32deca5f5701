"""anylayer verify: every engine against NumPy, node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import (
    TakesInputs,
    engine_option,
    input_option,
    network_options,
    read_net,
    say,
    shape_option,
    shapes_of,
    show,
    talk_options,
    terminal_width,
)
from anylayer.inspect.tables import Column, clean, plural, wrapped

if TYPE_CHECKING:
    from anylayer.inspect.verify import NodeCheck


_NODE = (Column("node", 8, "middle", worth=8), Column("type", 7, "middle"))
_WRONG = {"fg": "red", "bold": True}
_NAMED = 3  # nodes that a note names


@click.command(
    cls=TakesInputs,
    short_help="Compare every engine with NumPy, node by node.",
    epilog="\b\nExample:\n  anylayer verify deploy.prototxt weights.caffemodel -l layers.py",
)
@network_options
@engine_option("onnxruntime", "openvino", "ncnn", multiple=True, default="all", means="onnxruntime and openvino")
@input_option("a picture, .npy or .npz; what is not given is seeded noise")
@click.option("--seed", type=int, default=0, help="The seed of random inputs [0].")
@click.option("--random-weights", is_flag=True, help="Fill missing weights with seeded random ones.")
@shape_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
@talk_options
def command(
    engine: tuple[str, ...],
    inputs: tuple[str, ...],
    seed: int,
    random_weights: bool,
    shapes: Any,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **network: Any,
) -> None:
    """Run every node on every engine, on the inputs NumPy gives it, and compare with what NumPy gives.

    A node agrees when no value is off by more than 1e-5 of the largest one (or of the largest it reads, up to 1).
    Ends with status 1 when any does not. Only the blobs still needed are held, so large
    networks fit. Inputs are given, or seeded noise.
    """
    from anylayer.cli.inputs import feed
    from anylayer.errors import EngineError
    from anylayer.inspect.verify import verify

    net = read_net(**network)
    arrays = feed(net, inputs, shapes_of(net, shapes), seed)
    if random_weights:
        net.fill(seed, {name: array.shape for name, array in arrays.items()})
    checks: dict[str, list[NodeCheck]] = {}
    refused: dict[str, EngineError] = {}
    for name in _engines(engine, quiet):
        try:
            checks[name] = list(verify(net, arrays, engine=name))
        except EngineError as error:
            refused[name] = error
    if not checks:
        raise next(iter(refused.values()))
    if as_json:
        from anylayer.cli.files import to_json

        shown = {name: _plain(found) for name, found in checks.items()}
        click.echo(to_json({**shown, **{name: {"ok": False, "error": str(e)} for name, e in refused.items()}}))
    else:
        _show(checks)
        for name, reason in refused.items():
            click.echo(f"{name}: {reason}")
    if refused or any(not c.ok for found in checks.values() for c in found):
        click.get_current_context().exit(1)


def _engines(asked: tuple[str, ...], quiet: bool) -> list[str]:
    """The engines to compare with NumPy; "all" means those installed, of which there must be one."""
    from anylayer.engines import engines, load_engine
    from anylayer.errors import EngineError

    if asked != ("all",):
        for name in asked:
            if name == "numpy":
                raise click.UsageError("numpy is what the engines are compared with")
        return list(dict.fromkeys(asked))
    found = []
    for name in engines():
        try:
            if load_engine(name).GENERAL:
                found.append(name)
        except EngineError as error:
            say(f"left out: {error}", quiet)
    if not found:
        raise EngineError("there is no engine to compare with NumPy: pip install onnxruntime")
    return found


def _show(checks: dict[str, list[NodeCheck]]) -> None:
    columns = [*_NODE, *(Column(name) for name in checks)]
    rows = list(zip(*checks.values()))
    cells = [(row[0].name, row[0].type, *map(_cell, row)) for row in rows]
    show(columns, cells, [None if all(c.ok for c in row) else _WRONG for row in rows])
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in dict.fromkeys(c.note for c in row if c.note):
            notes.setdefault(note, []).append(row[0].name)
    for note, nodes in notes.items():
        named = ", ".join(nodes[:_NAMED]) + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")
        for line in wrapped(clean(f"{named}: {note}"), terminal_width()):
            click.echo(line)
    for name, found in checks.items():
        click.echo(f"{name}: {_verdict(found)}")


def _cell(check: NodeCheck) -> str:
    if check.refused:
        return "refused"
    if check.note and check.ok:
        return "-"
    relative = check.error / max(check.scale, 1e-6)
    return f"{'ok' if check.ok else 'OFF'} {relative:.1e}"


def _verdict(found: list[NodeCheck]) -> str:
    compared = [c for c in found if (c.ok and not c.note) or not c.ok]
    wrong = [c for c in found if not c.ok]
    skipped = len(found) - len(compared)
    tail = f" ({plural(skipped, 'node')} not compared: constants and host calls)" if skipped else ""
    if not wrong:
        return f"all {plural(len(compared), 'node')} compared agree with NumPy{tail}"
    first = wrong[0]
    why = f": {first.note or f'off by {first.error:.3g} of {first.scale:.3g}'}" if not first.refused else ""
    refused = sum(c.refused for c in wrong)
    differ = len(wrong) - refused
    counts = [f"{plural(refused, 'node')} refused"] if refused else []
    counts += [f"{plural(differ, 'node')} {'differs' if differ == 1 else 'differ'}"] if differ else []
    return f"{', '.join(counts)}, the first is '{first.name}' ({first.type}){why}{tail}"


def _plain(found: list[NodeCheck]) -> dict[str, Any]:
    wrong = [c.name for c in found if not c.ok]
    return {
        "ok": not wrong,
        "first": wrong[0] if wrong else None,
        "nodes": [
            {"name": c.name, "type": c.type, "error": c.error, "scale": c.scale, "ok": c.ok, "note": c.note}
            for c in found
        ],
    }
