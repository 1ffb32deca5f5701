"""The option --assume-free of commands that measure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import click

from anylayer.network import Function

F = TypeVar("F", bound=Function)

Assumed = Mapping[str, Sequence[tuple[int, ...]] | str | None]
"""The --assume-free options: layer type -> the shapes of its outputs, "same", or None."""

_SHAPES = re.compile(r"\d{1,9}(,\d{1,9})*(;\d{1,9}(,\d{1,9})*)*")


def _to_assumed(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> Assumed:
    """Return `Foo` as {"Foo": None}, `Foo=same` as {"Foo": "same"}, `Foo=1,2;3` as {"Foo": [(1, 2), (3,)]}."""
    assumed: dict[str, Sequence[tuple[int, ...]] | str | None] = {}
    for value in values:
        type_, equals, shapes = value.rpartition("=") if "=" in value else (value, "", "")
        if not type_ or (equals and shapes != "same" and not _SHAPES.fullmatch(shapes)):
            raise click.BadParameter(
                "the value is TYPE, TYPE=same, or TYPE=N,C,H,W with one shape per output, separated by "
                f"semicolons, got '{value}'",
                ctx,
                param,
            )
        if not equals or shapes == "same":
            assumed[type_] = shapes or None
        else:
            assumed[type_] = [tuple(int(d) for d in shape.split(",")) for shape in shapes.split(";")]
    return assumed


def assume_free_option(function: F) -> F:
    """Add --assume-free."""
    return click.option(
        "--assume-free",
        multiple=True,
        callback=_to_assumed,
        metavar="TYPE[=SHAPES]",
        help="Replace layers of this type by a stub that takes no time. SHAPES are those of its outputs "
        "(1,64,28,28;1,10) or 'same'; by default those that its class or the file states.",
    )(function)
