"""The command `anylayer`. Each subcommand is a file in `commands/`, imported when it is used, and so are the files
that only some calls of a subcommand need."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer import __version__
from anylayer.errors import clean_lines, nearest
from anylayer.folders import NamesByFile, load, modules, summary

if TYPE_CHECKING:
    from anylayer.cli import arrays, calibration, files, means, onray, video

__all__ = ["arrays", "calibration", "files", "main", "means", "onray", "video"]

_COMMANDS = modules("cli/commands")

sys.modules[__name__].__class__ = NamesByFile


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return load("cli/commands", cmd_name).command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # while the command was imported
            click.echo("interrupted", err=True)
            ctx.exit(130)
        except click.ClickException as error:  # its message may name inputs of a network
            error.message = clean_lines(error.message)  # type: ignore[misc]  # click says that it is final
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the first lines of their files, which are not imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary("cli/commands", name)) for name in _COMMANDS])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            is_model = Path(args[0]).suffix in (".prototxt", ".pt", ".pbtxt") or Path(args[0]).exists()
            hint = f"; to run a model: anylayer run {args[0]}" if is_model else nearest(args[0], _COMMANDS)
            ctx.fail(f"there is no command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)


def _version(ctx: click.Context, parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        click.echo(f"anylayer {__version__}")
        ctx.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="\b\nExample:\n  anylayer run deploy.prototxt weights.caffemodel -i image.jpg",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
)
def main() -> None:
    """Run and convert neural networks. A layer that is not built in is a few lines of NumPy.

    The --help of each command has an example.
    """
