"""anylayer run --ray: run the items on the processes of a Ray cluster. Results are Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anylayer.cli.command import say
from anylayer.cli.inputs import Loader
from anylayer.cli.items import Item
from anylayer.cli.targets import OutOption
from anylayer.errors import InputError, need, plural

if TYPE_CHECKING:
    from anylayer.network import Array

Progress = AbstractContextManager[tuple[Callable[[], None], Callable[[str], None], Callable[[str], None]]]

_OTHERS = {"show": "auto", "labels": None, "as_json": False}
"""Options that say how results are shown on this machine, with their defaults."""


def run_on_ray(loader: Loader, items: Sequence[Item], options: Mapping[str, Any], progress: Progress) -> int:
    """Run items on a cluster, and return how many of them failed. `options` are the options of `anylayer run`."""
    try:
        from anylayer.ray.mapping import FAILED
        from anylayer.ray.mapping import map as map_files
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("anylayer"):
            raise
        raise InputError("--ray needs: pip install 'ray[serve,data]'") from None
    name, files = _files(items)
    folder = _folder(options)
    for line in loader.describe(items[0]):
        say(line, options["quiet"])
    with progress as (advance, _, warn):

        def watch(count: int) -> None:
            for _ in range(count):
                advance()

        mapped = map_files(
            files,
            loader.net,
            folder,
            prepare=partial(load, loader, name),
            address=options["ray_address"] or None,
            threads=options["threads"] or 1,
            engine=options["engine"],
            outputs=options["blobs"] or None,
            batch=options["batch"] or 32,
            options=f"{loader.options} {dict(loader.types)}",
            watch=watch,
        )
        for file, text in mapped.failed.items():
            warn(f"failed: {text if file in text else f'{file}: {text}'}")
    before = f", {mapped.skipped} had results already" if mapped.skipped else ""
    say(f"wrote the results of {plural(mapped.done, 'file')} to {folder}{before}", options["quiet"])
    if mapped.failed:
        say(f"{plural(len(mapped.failed), 'file')} failed; {folder / FAILED} lists them")
    return len(mapped.failed)


def load(loader: Loader, name: str, path: str) -> dict[str, Array]:
    """Return the network's inputs for a file."""
    return loader.load(Item({name: Path(path)}, Path(path).stem, path)).arrays


def _files(items: Sequence[Item]) -> tuple[str, list[str]]:
    """Return the input that the items are for, and their files. All nodes of a cluster must have them."""
    names = {name for item in items for name in item.sources}
    sources = [source for item in items for source in item.sources.values()]
    need(
        len(names) == 1 and all(isinstance(source, Path) for source in sources),
        "with --ray, each run has one file, for one input",
        InputError,
    )
    return names.pop(), [str(source.absolute()) for source in sources if isinstance(source, Path)]


def _folder(options: Mapping[str, Any]) -> Path:
    outs = [OutOption(out) for out in options["outs"]]
    need(
        len(outs) == 1 and outs[0].is_folder, "with --ray, give one folder for the results: -o FOLDER", InputError
    )
    for name, default in _OTHERS.items():
        option = "json" if name == "as_json" else name
        need(
            options[name] == default,
            f"--{option} cannot be used with --ray: results are Parquet files",
            InputError,
        )
    return Path(outs[0].text)
