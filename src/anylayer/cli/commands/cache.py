"""Show what anylayer keeps in the user's cache folder, or delete it."""

from __future__ import annotations

from dataclasses import asdict

import click

from anylayer.cli.command import Command, echo, json_option, make_command, say, show
from anylayer.cli.files import to_json
from anylayer.errors import plural
from anylayer.inspect.tables import Column, duration
from anylayer.libraries.machine import cached_files
from anylayer.runtime.kept import Choice, kept_choices

_COLUMNS = (
    Column("network", 16, "wrap"),
    Column("inputs", 16, "wrap"),
    Column("runs on"),
    Column("measured", 20, "wrap"),
)


@make_command("anylayer cache --drop", Command)
@click.option("--drop", is_flag=True, help="Delete all of it. It is made again when it is needed.")
@json_option
def command(drop: bool, as_json: bool, quiet: bool) -> None:
    """Show the choices of engine auto, and count the compiled kernels; with --drop, delete them.

    A choice holds for one network with its weights, input shapes and number of threads, on this machine, with the
    versions of the engines that are installed.
    """
    choices, kernels = kept_choices(), cached_files("cpp", ".so")
    if drop:
        files = cached_files("choices", ".json")  # damaged ones, too
        for path in [*files, *kernels]:
            path.unlink(missing_ok=True)
        say(f"deleted {plural(len(files), 'choice')} and {plural(len(kernels), 'compiled kernel')}", quiet)
    elif as_json:
        data = [{"file": str(path), "runs_on": choice.runs_on, **asdict(choice)} for path, choice in choices]
        echo(to_json({"choices": data, "kernels": [str(path) for path in kernels]}))
    else:
        if choices:
            show(_COLUMNS, [_row(choice) for _, choice in choices])
        echo(f"{plural(len(choices), 'choice')} of engine auto, {plural(len(kernels), 'compiled kernel')}")


def _row(choice: Choice) -> list[str]:
    times = sorted(choice.timings.items(), key=lambda item: item[1])
    measured = ", ".join(f"{engine} {duration(seconds)}" for engine, seconds in times)
    return [choice.network, choice.shapes, choice.runs_on, measured]
