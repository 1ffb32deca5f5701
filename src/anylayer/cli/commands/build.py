"""Compile layers in C++ into a library that -l takes."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from anylayer.cli.command import Command, make_command, say
from anylayer.errors import InputError, need
from anylayer.kernels.compiler import Build
from anylayer.kernels.compiler import compiler as find_compiler
from anylayer.kernels.files import is_library


@make_command(
    "anylayer build layer.cpp -o liblayer.so\n  anylayer run deploy.prototxt weights.caffemodel -l liblayer.so",
    Command,
)
@click.argument("sources", metavar="SOURCE.cpp...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The library to write.")
@click.option("--compiler", metavar="NAME", help="The C++ compiler [$CXX, else c++, g++ or clang++].")
@click.option("--native", is_flag=True, help="Use all instructions of this machine's processor.")
@click.option(
    "--flag", "flags", multiple=True, metavar="WORD", help="An argument for the compiler, such as -fopenmp."
)
def command(
    sources: tuple[Path, ...], out: Path, compiler: str | None, native: bool, flags: tuple[str, ...], quiet: bool
) -> None:
    """Compile C++ files that include anylayer/layer.hpp into a shared library, with the system's compiler.

    The command that is run is printed, so that a build system can run it without anylayer. With CMake,
    find_package(anylayer) does the same: see `anylayer sdk`.
    """
    need(is_library(out), f"{out}: the name of a library ends in .so, .dylib or .dll", InputError)
    build = Build(sources, out, find_compiler(compiler), native, flags)
    say(shlex.join(build.command()), quiet)
    build.run()
    say(f"wrote {out}; anylayer layers {out} shows what it holds", quiet)
