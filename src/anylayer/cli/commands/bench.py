"""Measure the run time of a network on one or several engines."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import (
    echo,
    engine_option,
    make_command,
    network_options,
    say,
    seconds_option,
    show,
    threads_option,
)
from anylayer.cli.files import to_json
from anylayer.cli.free import assume_free_option
from anylayer.cli.trials import trial, trial_options
from anylayer.errors import AnyLayerError, plural
from anylayer.inspect.profile_listing import VOID
from anylayer.inspect.tables import Column
from anylayer.libraries.stdout import redirected_stdout

if TYPE_CHECKING:
    from anylayer import Net
    from anylayer.network import Array
    from anylayer.runtime.model import Model


@make_command("anylayer bench deploy.prototxt --random-weights -e onnxruntime -e openvino")
@network_options
@engine_option(multiple=True, default="auto")
@threads_option
@click.option(
    "-n", "--runs", type=click.IntRange(1), metavar="N", help="The number of runs [as many as fit in --seconds]."
)
@seconds_option(3.0, "The time per engine")
@assume_free_option
@trial_options
def command(
    engine: tuple[str, ...],
    threads: int | None,
    runs: int | None,
    seconds: float,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Measure a network: the median and the 95th percentile of its run time.

    Runs of several engines alternate, so that other load on the machine affects them equally. Ratios are relative
    to the first engine. One run of each engine before the measurement is not counted.
    """
    net, arrays = trial(options)
    names = list(dict.fromkeys(engine))
    models, refused = _models(net, names, arrays, threads, quiet)
    names = list(models)
    with redirected_stdout(drop=True):
        times = interleaved_times({n: partial(m, arrays) for n, m in models.items()}, runs, seconds * len(models))
    engine_of = {n: m.engine for n, m in models.items()}
    if as_json:
        shown = _json_data(times, engine_of, models, arrays, threads)
        shown["engines"].update({name: {"engine": name, "error": str(error)} for name, error in refused.items()})
        echo(to_json(shown))
    else:
        _show(times, engine_of, threads, refused)
    if refused:
        click.get_current_context().exit(1)


def _models(
    net: Net, names: Sequence[str], arrays: dict[str, Array], threads: int | None, quiet: bool
) -> tuple[dict[str, Model], dict[str, AnyLayerError]]:
    """Compile the network for each engine and run it once. Return the models, and the errors of refusing engines.

    Raises the first error where all engines refuse.
    """
    models: dict[str, Model] = {}
    refused: dict[str, AnyLayerError] = {}
    for name in names:
        try:
            models[name] = _compile(net, name, arrays, threads, quiet)
        except AnyLayerError as error:
            refused[name] = error
    if not models:
        raise next(iter(refused.values()))
    return models, refused


def _compile(net: Net, engine: str, arrays: dict[str, Array], threads: int | None, quiet: bool) -> Model:
    from anylayer.inspect.free import steered_by

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about host calls, which are printed below
        model = net.compile(engine, {n: a.shape for n, a in arrays.items()}, threads)
        model(arrays)
    for name, kind, reason in model.host_calls:
        say(f"layer '{name}' ({kind}) runs in Python: {reason}", quiet)
    for steered in steered_by(model.plan.nodes if model.plan is not None else ()):
        say(f"{VOID}: {steered}", quiet)
    return model


def interleaved_times(
    calls: dict[str, Callable[[], object]],
    runs: int | None,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Run the calls in turn and return the seconds of each run by name.

    There are `runs` rounds, or as many as fit in `seconds`, at least 3 and at most 100,000.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    stop = clock() + seconds
    rounds = 0
    while rounds < (runs or 100_000) and (runs or rounds < 3 or clock() < stop):
        for name, call in calls.items():
            start = clock()
            call()
            times[name].append(clock() - start)
        rounds += 1
    return times


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of the values that is at least as large as `share` (0 to 1) of them."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _statistics(values: Sequence[float]) -> dict[str, float]:
    """Return the number of runs and, in milliseconds, the median, 95th percentile and minimum."""
    return {
        "runs": len(values),
        "median": median(values) * 1e3,
        "p95": percentile(values, 0.95) * 1e3,
        "best": min(values) * 1e3,
    }


def _show(
    times: dict[str, list[float]], engine_of: dict[str, str], threads: int | None, refused: Mapping[str, object]
) -> None:
    """Print the table of measurements, and why engines refused."""
    several = len(times) + len(refused) > 1
    columns = ["median ms", "p95 ms", "best ms", "runs"] + (["ratio"] if several else [])
    rows = []
    first = _statistics(next(iter(times.values())))["median"]
    for name, values in times.items():
        n = _statistics(values)
        cells = [f"{n['median']:.3f}", f"{n['p95']:.3f}", f"{n['best']:.3f}", str(n["runs"])]
        shown = name if engine_of[name] == name else f"{name}: {engine_of[name]}"
        rows.append([shown, *cells, *([f"{n['median'] / first:.2f}"] if several else [])])
    rows += [[name, "refused", *["-"] * (len(columns) - 1)] for name in refused]
    show([Column("engine"), *(Column(c, right=True) for c in columns)], rows)
    for name, reason in refused.items():
        echo(f"{name}: {reason}")
    if threads:
        echo(plural(threads, "thread"))


def _json_data(
    times: dict[str, list[float]],
    engine_of: dict[str, str],
    models: dict[str, Model],
    arrays: dict[str, Array],
    threads: int | None,
) -> dict[str, Any]:
    engines = {}
    for name, values in times.items():
        engines[name] = {
            "engine": engine_of[name],
            "ms": _statistics(values),
            "host_calls": [{"node": n, "type": t, "reason": r} for n, t, r in models[name].host_calls],
        }
    return {"inputs": {n: list(a.shape) for n, a in arrays.items()}, "threads": threads, "engines": engines}
