"""Progress on stderr: a bar, or what is done at the moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anylayer.cli.command import console, echo, say
from anylayer.errors import clean_lines


@contextmanager
def progress(
    total: int, quiet: bool, unit: str = ""
) -> Iterator[tuple[Callable[[], None], Callable[[str], None], Callable[[str], None]]]:
    """Show a progress bar on stderr, for more than one item on a terminal.

    With a `unit`, it also shows the units per second, and a `total` of 0 means that it is not known.

    Yield three functions: one counts an item, one prints a line to stdout (above the bar, if stdout is the
    terminal too), and one prints a line to stderr.
    """
    if quiet or (total < 2 and not unit) or not sys.stderr.isatty():
        yield (lambda: None), echo, say
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed or 0:.1f} {unit}/s")

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), *([Speed()] if unit else []))
    screen = console(stderr=True)

    def above(line: str) -> None:
        screen.print(clean_lines(line), markup=False, highlight=False, soft_wrap=True)

    with Progress(*columns, console=screen, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("", total=total or None)
        yield (lambda: bar.advance(task)), (above if sys.stdout.isatty() else echo), above


@contextmanager
def stages(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that says what is done next: beside a spinner on a terminal, else as a line on stderr."""
    if quiet or not sys.stderr.isatty():
        yield (lambda text: say(text, quiet))
        return
    from rich.text import Text

    with console(stderr=True).status("") as status:
        yield (lambda text: status.update(Text(clean_lines(text))))
