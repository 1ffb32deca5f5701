"""Print the folder of the headers for layers in C++."""

from __future__ import annotations

import click

from anylayer.cli.command import Command, echo, make_command
from anylayer.kernels.compiler import sdk


@make_command('anylayer sdk --include\n  cmake -B build -DCMAKE_PREFIX_PATH="$(anylayer sdk)"', Command)
@click.option("--include", is_flag=True, help="Print the folder for the compiler's -I instead.")
def command(include: bool, quiet: bool) -> None:
    """Print the folder of the SDK, which CMake's find_package(anylayer) finds under CMAKE_PREFIX_PATH.

    Its headers are in the folder `include`. `anylayer build` needs none of this.
    """
    echo(str(sdk() / "include" if include else sdk()))
