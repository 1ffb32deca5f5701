"""Code that commands share: exit statuses, options, reading the network, lines and tables."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import anylayer
from anylayer import inspect
from anylayer.cli.items import constants_of
from anylayer.cli.signals import Terminated, keeping_interrupts, raising_terminated
from anylayer.engines import on_device
from anylayer.errors import AnyLayerError, InputError, clean_lines, command_line, need
from anylayer.folders import modules
from anylayer.kernels.opencl.files import OpenCL
from anylayer.layer import Registry
from anylayer.network import Function

if TYPE_CHECKING:
    from rich.console import Console

    from anylayer import Net
    from anylayer.inspect.tables import Column

F = TypeVar("F", bound=Function)

_FIRST, _LAST = ("-i", "-o", "-l", "-e"), ("-q", "--debug", "--help")
"""The options that --help lists first, and those that it lists last."""


class ReadingOption(click.Option):
    """An option that says how to read a network, in a section of its own in --help."""

    section = "Reading the network"


class KernelOption(click.Option):
    """An option for layers in C++ and OpenCL, whose page explains it."""

    section = "Layers in C++ and OpenCL (see docs/native-layers.md and docs/opencl-layers.md)"


class ImageOption(click.Option):
    """An option that says how images become inputs, in a section of its own in --help."""

    section = "Images"


_ENGINES = ("auto", "numpy", *modules("engines"))


class Command(click.Command):
    """A command that ends with one message and an exit status instead of a traceback.

    The status is 1 for an error, 2 for wrong usage, 130 after an interrupt, and 128 plus the signal's number when
    terminated. With --debug the exception is raised.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters in the order of --help: what most calls need comes first."""

        def place(parameter: click.Parameter) -> int:
            names = [name for name in _FIRST if name in parameter.opts]
            return _FIRST.index(names[0]) if names else len(_FIRST) + any(n in _LAST for n in parameter.opts)

        return sorted(super().get_params(ctx), key=place)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        order = ("Options", ImageOption.section, ReadingOption.section, KernelOption.section)
        sections: dict[str, list[tuple[str, str]]] = {section: [] for section in order}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections[getattr(parameter, "section", "Options")].append(record)
        for section, records in sections.items():
            if not records:
                continue
            with formatter.section(section):
                if section == KernelOption.section:
                    indent = " " * formatter.current_indent
                    names = ", ".join(name for name, _ in records)
                    width = formatter.width - len(indent)
                    for line in textwrap.wrap(names, width, break_on_hyphens=False):
                        formatter.write(f"{indent}{line}\n")
                else:
                    formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:
        with raising_terminated(), command_line():
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        if ctx.params.pop("debug", False):
            _choose_device(ctx.params)
            return super().invoke(ctx)
        try:
            _choose_device(ctx.params)
            with keeping_interrupts():
                return super().invoke(ctx)
        except AnyLayerError as error:
            _fail(ctx, str(error))
        except Terminated as signal:
            ctx.exit(signal.status)
        except KeyboardInterrupt:
            echo("interrupted", err=True)
            ctx.exit(130)
        except BrokenPipeError:
            raise
        except OSError as error:
            _fail(ctx, f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except MemoryError:
            _fail(ctx, "out of memory")
        except (click.exceptions.Exit, click.Abort, click.ClickException):
            raise
        except Exception as error:
            _fail(ctx, f"this is a bug in anylayer (--debug shows the traceback): {type(error).__name__}: {error}")


_DEVICE = re.compile(r"(?i)(cpu|gpu|cuda)(:\d+)?")
"""A device of engines."""


def _choose_device(params: dict[str, Any]) -> None:
    """Let the engines of --engine compute on --device, unless it names the device of OpenCL kernels (-c)."""
    device, engine = params.get("device") or "", params.get("engine")
    if engine is None or params.get("kernels") or not _DEVICE.fullmatch(device):
        return
    several = isinstance(engine, (list, tuple))
    params["engine"] = [on_device(one, device) for one in engine] if several else on_device(engine, device)


def _fail(ctx: click.Context, text: str) -> None:
    echo(text, err=True)
    ctx.exit(1)


_VALUE_IS_OPTIONAL = ("--ray", "--preprocess")
"""Options that may have a value or none."""


class TakesInputs(Command):
    """A command whose -i accepts all words up to the next option, if MODEL comes before it: `-i *.jpg`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = {o: p for p in self.params if isinstance(p, click.Option) for o in p.opts}
        spread: list[str] = []
        positional, value, inputs, maybe = 0, False, False, False
        for i, word in enumerate(args):
            if word == "--":
                spread += args[i:]
                break
            if value and not (maybe and word.startswith("-")):
                value = False
            elif word.startswith("-") and word != "-":
                inputs = positional > 0 and word in ("-i", "--input")
                option = options.get(word)
                value = option is not None and not option.is_flag
                maybe = word in _VALUE_IS_OPTIONAL
            elif inputs:
                spread.append("-i")
            else:
                positional += 1
            spread.append(word)
        return super().parse_args(ctx, spread)


def to_size(
    ctx: click.Context, param: click.Parameter, value: str | None, word: str = "keep"
) -> tuple[int, int] | str | None:
    """Return `300` or `500x375` (width x height) as (height, width), and `word` unchanged."""
    if value is None or value == word:
        return value
    match = re.fullmatch(r"(\d{1,5})(?:[x,](\d{1,5}))?", value)
    sides = [int(s) for s in match.groups() if s] if match else [0]
    if 0 in sides:
        raise click.BadParameter(f"a size is WIDTHxHEIGHT, one number, or {word}, got '{value}'", ctx, param)
    return sides[-1], sides[0]


def to_numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> float | tuple[float, ...] | None:
    """Return `0.017` or a fraction such as `1/255` as a number, and several separated by commas as a tuple."""
    if value is None:
        return None
    try:
        fractions = [part.partition("/") for part in value.split(",")]
        numbers = tuple(float(top) / float(bottom) if bottom else float(top) for top, _, bottom in fractions)
        return numbers if len(numbers) > 1 else numbers[0]
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(f"expected a number or a fraction, got '{value}'", ctx, param) from None


def to_shapes(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> list[tuple[str, tuple[int, ...]]]:
    """Return `data=1,3,224,224` as ("data", (1, 3, 224, 224)), and a shape without a name as ("", shape)."""
    shapes = []
    for value in values:
        name, _, dims = value.rpartition("=")
        if not re.fullmatch(r"\d{1,9}([,x]\d{1,9})*", dims):
            raise click.BadParameter(
                f"a shape is INPUT=N,C,H,W with integers of at least 0, got '{value}'", ctx, param
            )
        shapes.append((name, tuple(int(d) for d in re.split("[,x]", dims))))
    return shapes


_OPEN_SIZE = r"[A-Za-z0-9_<>=+* -]{1,64}"


def to_open_shapes(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> list[tuple[str, tuple[int | str, ...]]]:
    """Return `data=N,3,32*h,W>=64` as ("data", ("N", 3, "32*h", "W>=64")), open sizes as text."""
    shapes: list[tuple[str, tuple[int | str, ...]]] = []
    for value in values:
        match = re.fullmatch(rf"(?:([^=<>,]+)=(?!=))?({_OPEN_SIZE}(?:,{_OPEN_SIZE})*)", value)
        if match is None:
            raise click.BadParameter(
                f"a shape is INPUT=N,C,H,W with integers of at least 0 or names (N,3,32*h,W>=64), got '{value}'",
                ctx,
                param,
            )
        name, dims = match.groups()
        sizes = [d.strip() for d in dims.split(",")]
        if len(sizes) == 1 and re.fullmatch(r"\d+(x\d+)+", sizes[0]):
            sizes = sizes[0].split("x")
        shapes.append((name or "", tuple(int(d) if d.isdigit() else d for d in sizes)))
    return shapes


def _shape_option(callback: Function, more: str) -> Callable[[F], F]:
    return click.option(
        "--shape",
        "shapes",
        multiple=True,
        callback=callback,
        metavar="INPUT=N,C,H,W",
        help=f"An input's shape{more}.",
    )


shape_option = _shape_option(to_shapes, ", instead of the file's")
open_shape_option = _shape_option(to_open_shapes, "; open sizes: N,3,32*h,W>=64")


def input_option(what: str) -> Callable[[F], F]:
    """Add -i. `what` describes the files that it accepts."""
    return click.option(
        "-i",
        "--input",
        "inputs",
        multiple=True,
        metavar="[NAME=]FILE...",
        help=f"The first input, or NAME: {what}.",
    )


def apply(function: F, options: Sequence[Callable[[F], F]]) -> F:
    """Add options to a command's function. Its help lists them in this order."""
    for option in reversed(options):
        function = option(function)
    return function


def network_options(function: F) -> F:
    """Add MODEL, WEIGHTS and the options that say how to read them; see `read_net`."""
    return apply(
        function,
        [
            click.argument("model", type=click.Path(path_type=Path)),
            click.argument("weights", type=click.Path(path_type=Path), required=False),
            reading_options,
        ],
    )


def reading_options(function: F) -> F:
    """Add the options that say how to read a network."""
    reading, kernel = (partial(click.option, cls=cls) for cls in (ReadingOption, KernelOption))
    return apply(
        function,
        [
            click.option(
                "-l",
                "--layers",
                multiple=True,
                metavar="FILE",
                help="Your layers: FILE.py (is executed) or a library.",
            ),
            kernel("--isolate", is_flag=True),
            kernel("--isolate-limit", type=click.FloatRange(0, min_open=True), metavar="SECONDS"),
            kernel("-c", "--kernels", multiple=True, metavar="FILE.xml"),
            reading(
                "--device",
                default="",
                metavar="NAME",
                help="Where engines run: cpu, gpu, cuda:1; with -c: OpenCL.",
            ),
            kernel("--dump-kernels", type=click.Path(path_type=Path), metavar="DIR"),
            kernel(
                "--kernel-folder", "kernel_folders", multiple=True, type=click.Path(path_type=Path), metavar="DIR"
            ),
            kernel("--no-user-kernels", is_flag=True),
            reading(
                "--dialect",
                metavar="NAME",
                shell_complete=completing(dialects),
                help="The file's fork of Caffe or Darknet.",
            ),
            reading("--proto", type=click.Path(path_type=Path), help="The caffe.proto of that fork."),
            reading(
                "--phase", type=click.Choice(["TEST", "TRAIN"]), default="TEST", help="The phase to read [TEST]."
            ),
            reading("--level", type=int, default=0, help="The level for include and exclude rules [0]."),
            reading("--stage", multiple=True, metavar="NAME", help="A stage for include and exclude rules."),
            reading("--output", multiple=True, metavar="NAME", help="MXNet: an output in place of the symbol's."),
            reading("--raw", is_flag=True, help="Darknet: the maps without decoding boxes."),
            reading(
                "--constant",
                "constants",
                multiple=True,
                metavar="NAME=VALUE",
                help="A fixed input: a number, [1, 2] or FILE.npy.",
            ),
        ],
    )


def json_option(function: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")(function)


def seed_option(function: F) -> F:
    """Add --seed."""
    return click.option("--seed", type=int, default=0, help="The seed of random inputs and weights [0].")(function)


def random_weights_option(function: F) -> F:
    """Add --random-weights."""
    text = "Fill missing weights with seeded random numbers."
    return click.option("--random-weights", is_flag=True, help=text)(function)


def ray_option(*, is_flag_too: bool) -> Callable[[F], F]:
    """Add --ray. is_flag_too: whether --ray without a value uses a cluster on this machine."""
    text = "Run on this Ray cluster; auto: this machine's."
    alone = " Without ADDRESS: start one here." if is_flag_too else ""
    more: dict[str, Any] = {"is_flag": False, "flag_value": ""} if is_flag_too else {}
    return click.option("--ray", "ray_address", metavar="ADDRESS", help=text + alone, **more)


def threads_option(function: F) -> F:
    """Add --threads."""
    text = "The threads of the engine [its default]."
    return click.option("--threads", type=click.IntRange(1), metavar="N", help=text)(function)


def make_command(example: str, cls: type[Command] = TakesInputs) -> Callable[[F], click.Command]:
    """Make a function a command with --quiet and --debug, whose help ends with an example."""

    def decorate(function: F) -> click.Command:
        return click.command(cls=cls, epilog=f"\b\nExample:\n  {example}")(_talk_options(function))

    return decorate


def _talk_options(function: F) -> F:
    """Add --quiet and --debug."""
    return apply(
        function,
        [
            click.option("-q", "--quiet", is_flag=True, help="Print only results, no progress."),
            click.option("--debug", is_flag=True, help="Show the traceback of an error."),
        ],
    )


def dialects() -> list[str]:
    """Return the dialects that a Caffe file can be read as, sorted."""
    return sorted(Registry.of("caffe").dialects())


def completing(names: Callable[[], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return the function by which a shell completes an option that takes one of `names`."""
    return lambda ctx, param, start: [name for name in names() if name.startswith(start)]


def engine_option(*names: str, multiple: bool = False, default: str = "auto", means: str = "") -> Callable[[F], F]:
    """Add --engine. The help lists `names`, by default all engines, and `means`, what the default stands for."""
    repeat = "; repeat the option to compare engines" if multiple else ""
    listed_names = names or _ENGINES
    return click.option(
        "-e",
        "--engine",
        multiple=multiple,
        metavar="NAME",
        default=[default] if multiple else default,
        shell_complete=completing(lambda: listed_names),
        help=f"{', '.join(listed_names)}{repeat} [{means or default}].",
    )


def seconds_option(default: float, means: str) -> Callable[[F], F]:
    """Add --seconds. The help is `means`, which says what takes the time, and the default."""
    return click.option(
        "--seconds",
        type=click.FloatRange(0.01),
        metavar="S",
        default=default,
        help=f"{means}, in seconds [{default:g}].",
    )


def read_net(options: Mapping[str, Any]) -> Net:
    """Read the network that the options of `network_options` describe. `options` are a command's values."""
    device = options["device"]
    net = anylayer.read(options["model"], options["weights"], **reading_of(options))
    opencl = any(kernel.origin.endswith(".xml") for kernel in net.kernels.values())
    rule = f"--device: there is no device '{device}'; give cpu, gpu, cuda, or one of several: cuda:1"
    need(not device or opencl or _DEVICE.fullmatch(device), rule, InputError)
    return net


def reading_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of anylayer.read that the options of `reading_options` mean."""
    folders, dumps, device = options["kernel_folders"], options["dump_kernels"], options["device"]
    return {
        "layers": options["layers"],
        "isolate": options["isolate_limit"] or options["isolate"],
        "kernels": OpenCL(options["kernels"], device, dumps, folders, not options["no_user_kernels"]),
        "dialect": options["dialect"],
        "proto": options["proto"],
        "phase": options["phase"] if options["phase"] != "TEST" else None,  # the defaults hold for every format
        "level": options["level"] or None,
        "stages": options["stage"] or None,
        "outputs": options["output"] or None,
        "raw": options["raw"] or None,
        "constants": constants_of(options["constants"]),
    }


def shapes_of(net: Net, shape_options: Iterable[tuple[str, tuple[Any, ...]]]) -> dict[str, tuple[Any, ...]]:
    """Return the --shape options by input. A shape without a name belongs to the network's only input."""
    names = list(net.network.inputs)
    shapes = {}
    for name, shape in shape_options:
        if not name and len(names) != 1:
            raise click.UsageError(
                f"--shape needs the name of an input: {', '.join(names) or 'the network has none'}"
            )
        shapes[name or names[0]] = shape
    return shapes


def echo(text: str = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print text to stdout or stderr without control characters. `style` are arguments of click.style."""
    text = clean_lines(text)
    click.echo(click.style(text, **style) if style else text, err=err, nl=nl)


def say(text: str, quiet: bool = False) -> None:
    """Print a line to stderr, unless `quiet`."""
    if not quiet:
        echo(text, err=True)


def console(*, stderr: bool = False) -> Console:
    """Return rich's console: as wide as the terminal, or without a limit for a file or pipe."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else 4000, highlight=False, soft_wrap=False)


def terminal_width() -> int | None:
    """Return the width of the terminal; None if stdout is a file or pipe, where lines are not cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def show(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[Mapping[str, Any] | None] = ()
) -> None:
    """Print a table to stdout, as wide as the terminal. `styles` are arguments of click.style, one per row."""
    head, *parts = inspect.tables.table(columns, rows, terminal_width())
    for line in head:
        echo(line)
    for i, lines in enumerate(parts):
        for line in lines:
            echo(line, **((styles[i] if styles else None) or {}))
