"""Compare engines with NumPy, node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import echo, engine_option, make_command, network_options, say, show, terminal_width
from anylayer.cli.files import to_json
from anylayer.cli.trials import trial, trial_options
from anylayer.compile.noise import LITTLE, real_data
from anylayer.engines import engines, is_on_cpu, load_engine, nothing_on
from anylayer.errors import EngineError, plural, some
from anylayer.inspect.tables import Column, wrap_lines
from anylayer.numerics import difference_text

if TYPE_CHECKING:
    from anylayer.inspect.verify import NodeCheck


_SKIPPED = "constant, host call or kernel without a class, or nothing to see in its output"
_NODE = (Column("node", 8, "middle", worth=8), Column("type", 7, "middle"))
_WRONG = {"fg": "red", "bold": True}


@make_command("anylayer verify deploy.prototxt weights.caffemodel -l layers.py")
@network_options
@engine_option(*engines(), multiple=True, default="all", means="all that run every graph on the CPU")
@trial_options
def command(engine: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> None:
    """Run each node on each engine, on inputs that NumPy computes, and compare its outputs with NumPy's.

    A node agrees if no error exceeds 1e-5 of the largest output value (or of the largest input value, up to 1).
    Where its output is empty, constant, saturated or tiny, it runs on noise, too.
    The exit status is 1 if a node differs. Only blobs that are still needed are held, so large networks fit in
    memory.
    """
    from anylayer.inspect.verify import verify

    net, arrays = trial(options)
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
        shown = {name: _json_data(node_checks) for name, node_checks in checks.items()}
        echo(to_json({**shown, **{name: {"ok": False, "error": str(e)} for name, e in refused.items()}}))
    else:
        _show(checks)
        for name, reason in refused.items():
            echo(f"{name}: {reason}")
    if refused or any(not c.ok for node_checks in checks.values() for c in node_checks):
        click.get_current_context().exit(1)


def _engines(names: tuple[str, ...], quiet: bool) -> list[str]:
    """Return the engines to compare with NumPy; "all" means all installed ones. Raises EngineError for none."""
    if names != ("all",):
        for name in names:
            if name == "numpy":
                raise click.UsageError("engines are compared with numpy; name another engine")
        return list(dict.fromkeys(names))
    general_names = []
    for name in engines():
        try:
            engine = load_engine(name)
            if engine.GENERAL and is_on_cpu(engine):
                general_names.append(name)
        except EngineError as error:
            say(f"skipped: {error}", quiet)
    if not general_names:
        raise EngineError(nothing_on("cpu"))
    return general_names


def _show(checks: dict[str, list[NodeCheck]]) -> None:
    """Print a row per node that is not constant, notes with their nodes, and a verdict per engine."""
    columns = [*_NODE, *(Column(name) for name in checks)]
    rows = list(zip(*checks.values()))
    shown = [row for row in rows if not row[0].is_constant]
    cells = [(row[0].name, row[0].type, *map(_cell, row)) for row in shown]
    show(columns, cells, [None if all(c.ok for c in row) else _WRONG for row in shown])
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in dict.fromkeys(c.note for c in row if c.note):
            notes.setdefault(note, []).append(row[0].name)
    for row in rows:
        if not all(c.tells for c in row):
            nothing = f"nothing was compared; {real_data()}"
            why = nothing if all(c.proves_nothing for c in row) else "it was compared on noise, too"
            notes.setdefault(f"the output is {LITTLE}: {why}", []).append(row[0].name)
    for note, nodes in notes.items():
        for line in wrap_lines(f"{some(nodes)}: {note}", terminal_width()):
            echo(line)
    for name, node_checks in checks.items():
        echo(f"{name}: {_verdict(node_checks)}")


def _is_compared(check: NodeCheck) -> bool:
    return not check.ok or not (check.note or check.proves_nothing)


def _cell(check: NodeCheck) -> str:
    if check.refused:
        return "refused"
    if not _is_compared(check):
        return "-"
    return f"{'ok' if check.ok else 'OFF'} {check.relative:.1e}"


def _verdict(checks: list[NodeCheck]) -> str:
    """Return a line that says how many nodes agree, or which node is the first that does not."""
    compared = [c for c in checks if _is_compared(c)]
    wrong = [c for c in checks if not c.ok]
    skipped = len(checks) - len(compared)
    tail = f" ({plural(skipped, 'node')} not compared: {_SKIPPED})" if skipped else ""
    if not compared:
        return f"no node was compared{tail.replace(' not compared', '')}"
    if not wrong:
        agree = f"all {len(compared)} nodes compared agree" if len(compared) > 1 else "the 1 node compared agrees"
        return f"{agree} with NumPy{tail}"
    first = wrong[0]
    why = f": {first.note or difference_text(first.error, first.scale)}" if not first.refused else ""
    refused = sum(c.refused for c in wrong)
    differ = len(wrong) - refused
    counts = [f"{plural(refused, 'node')} refused"] if refused else []
    counts += [f"{plural(differ, 'node')} {'differs' if differ == 1 else 'differ'}"] if differ else []
    return f"{', '.join(counts)}, the first is '{first.name}' ({first.type}){why}{tail}"


def _json_data(checks: list[NodeCheck]) -> dict[str, Any]:
    wrong = [c.name for c in checks if not c.ok]
    return {
        "ok": not wrong,
        "first": wrong[0] if wrong else None,
        "nodes": [
            {
                name: getattr(c, name)
                for name in ("name", "type", "error", "scale", "ok", "note", "tells", "on_noise")
            }
            for c in checks
        ],
    }
