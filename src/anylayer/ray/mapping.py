"""Map a network over a data set: results as columns, or as Parquet files in a folder, where a run can be resumed.

Files are distributed over the processes of a cluster, and processes that die are replaced.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.api import Net
from anylayer.errors import FileError, InputError, need, wording, writing
from anylayer.libraries.ray import DIED, TASK_FAILED, cluster, cores, data, need_cores, ray
from anylayer.libraries.whole import write_whole
from anylayer.ray.mapper import MANIFEST, ROWS, Mapper, Prepare, Task, manifest, written_paths
from anylayer.ray.sending import sent

FAILED = "_failed.json"
"""The file in a folder of results that lists the files that failed, with their errors."""


@dataclass(slots=True)
class Mapped:
    """The result of a run over files. `done` and `skipped` count the files that this run has computed, and those
    that had results already. `failed` maps each file without a result to its error.
    """

    folder: Path
    done: int = 0
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)


def map(
    dataset: Any,
    model: Net,
    output: str | Path | None = None,
    *,
    prepare: Prepare | None = None,
    address: str | None = None,
    actors: int | None = None,
    threads: int = 1,
    engine: str = "auto",
    outputs: Sequence[str] | None = None,
    batch: int = 32,
    options: str = "",
    watch: Callable[[int], None] | None = None,
) -> Any:
    """Run a network over a data set on a Ray cluster. Each process compiles the network once, and measures how
    many samples should run together.

    Without `output`, `dataset` is a ray.data.Dataset with a column per input, whose rows are samples without an
    axis for them. The result is a Dataset with further columns, one per output. It is computed when it is read.

    With `output`, `dataset` is an iterable of files, and `prepare` a function from a file to arrays by input. The
    results are Parquet files in the folder `output`, with columns path, and per output NAME and NAME.shape. Files
    that fail are listed in _failed.json and in the result, a Mapped, and do not end the run. A run that is
    repeated with the same network skips the files that have results.

    address: of the cluster, "auto" for the one of this machine; None starts one, unless the program is connected
    to one. actors: the number of processes; by default as many as the cluster has cores for. threads: the threads
    of each. engine, outputs: as in compile. batch: the largest number of samples that run together. options: what
    else the results depend on, for example a description of `prepare`. watch: is called with the number of files
    of each batch.

    Raises InputError where the folder has results of another network or of other options.
    """
    need(threads > 0 and batch > 0 and (actors is None or actors > 0), "numbers must be positive", InputError)
    model.require_known()
    place = None if output is None else str(Path(output).absolute())
    task = Task(engine, threads, outputs, batch, place, uuid.uuid4().hex)
    if output is None:
        return _over(dataset, model, task, actors)
    folder = Path(output)
    files = list(dict.fromkeys(str(file) for file in dataset))
    finished = _results(folder, _fingerprint(model, outputs, options), task.run)
    mapped = Mapped(folder, skipped=sum(file in finished for file in files))
    todo = [file for file in files if file not in finished]
    if todo:
        with cluster(address, least=threads, weights=_size(model)):
            count_of_actors = actors or max(1, cores() // task.threads)
            need_cores([threads], wording("give fewer threads", "give a smaller --threads"))
            for count, errors in run_files(todo, [sent(model, prepare)], task, count_of_actors):
                mapped.failed |= errors
                mapped.done += count - len(errors)
                if watch is not None:
                    watch(count)
    text = json.dumps(mapped.failed, indent=1, ensure_ascii=False)
    write_whole(folder / FAILED, lambda file: file.write(text.encode("utf-8", "surrogateescape")))
    return mapped


def _over(dataset: Any, model: Net, task: Task, actors: int | None) -> Any:
    """Return the data set whose batches the network maps."""
    columns = data()
    columns.DataContext.get_current().enable_progress_bars = False
    free = cores()
    processes = actors or max(1, (free - 1) // task.threads)
    # Tasks that read and write the data set need a core, too. Without a free one, Ray waits forever.
    reserved = task.threads if processes * task.threads < free else 0
    return dataset.map_batches(
        Mapper,
        batch_size=ROWS,
        compute=columns.ActorPoolStrategy(size=processes),
        num_cpus=reserved,
        fn_constructor_args=([sent(model, None)], task),
    )


def _size(model: Net) -> int:
    return sum(blob.nbytes for node in model.network.nodes for blob in node.blobs)


def _fingerprint(model: Net, outputs: Sequence[str] | None, options: str) -> str:
    """Return a hash of all that the results depend on: nodes, weights, the code of the user's layers, options."""
    digest = hashlib.sha256()
    for node in model.network.nodes:
        digest.update(repr((node.name, node.type, node.inputs, node.outputs, node.params)).encode())
        for blob in node.blobs:
            digest.update(repr((blob.shape, blob.dtype)).encode())
            digest.update(np.ascontiguousarray(blob).data)
    for type_, definition in sorted(model.user_layers.items()):
        origin = Path(definition.origin)
        digest.update(type_.encode() + (origin.read_bytes() if origin.is_file() else b""))
    digest.update(repr((sorted(outputs or model.network.outputs), options)).encode())
    return digest.hexdigest()


def _results(folder: Path, fingerprint: str, run: str) -> set[str]:
    """Make the folder of the results, and return the files that have results in it. Damaged results are
    removed.

    Processes of an earlier `run` whose program was killed may live on for seconds. They write nothing from now on.
    """
    from anylayer.libraries.pyarrow import strings

    need(folder.is_dir() or not folder.exists(), f"{folder} is a file, but the output is a folder", InputError)
    with writing(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    if (folder / MANIFEST).exists():
        need(
            manifest(folder).get("results_of") == fingerprint,
            f"{folder} has results of another network, or of other options; give another folder",
            InputError,
        )
    else:
        need(not any(folder.iterdir()), f"{folder} holds other files; give a new folder", InputError)
    text = json.dumps({"results_of": fingerprint, "run": run})
    write_whole(folder / MANIFEST, lambda file: file.write(text.encode()))
    finished: set[str] = set()
    for part in folder.glob("*.parquet"):
        try:
            finished.update(strings(part, "path"))
        except FileError:
            part.unlink()
    return finished


_SECONDS = 2.0
"""Seconds of work that a process gets at once, where that is more than `ROWS` files."""
_DEATHS = 3
"""The number of processes that die before their file fails, or before the run ends if none of them has started."""


def run_files(
    files: Sequence[str], sent: Sequence[Any], task: Task, count: int
) -> Iterator[tuple[int, dict[str, str]]]:
    """Run files on `count` processes. Yield the number of files that are finished, with the errors of those that
    failed, until all are.

    Files of a process that dies run again, `ROWS` at a time and then one by one. A file fails if a process dies
    that runs it alone, and `_DEATHS` processes have died that ran it.
    """
    todo, again, deaths = deque(files), deque[list[str]](), Counter[str]()
    running: dict[Any, tuple[Any, list[str], float]] = {}
    kind = ray.remote(num_cpus=task.threads, max_restarts=0)(Mapper)
    size, starts = ROWS, 0

    def give(actor: Any, part: list[str]) -> None:
        running[actor.files.remote(part)] = actor, part, time.perf_counter()

    def next_part() -> list[str]:
        if again:
            return again.popleft()
        number = min(size, -(-len(todo) // (2 * count)))  # few at the end, so that all processes end together
        return [todo.popleft() for _ in range(number // ROWS * ROWS or number)]

    try:
        for _ in range(min(count, len(files))):
            give(kind.remote(sent, task), [])  # no files: it is finished when the process is ready
        while todo or again or any(part for _, part, _ in running.values()):
            finished = ray.wait([*running])[0][0]
            actor, part, begin = running.pop(finished)
            try:
                errors: dict[str, str] = ray.get(finished)
            except DIED as error:
                ray.kill(actor)
                starts += not part
                need(starts < _DEATHS, f"no process of the cluster starts: {_last_line(error)}", InputError)
                deaths.update(part)
                if len(part) == 1 and deaths[part[0]] >= _DEATHS:
                    yield 1, {part[0]: f"{part[0]}: processes that run it die: {_last_line(error)}"}
                else:
                    # the process may have died between writing and returning
                    complete = written_paths(task, part)
                    yield len(complete), {}
                    left = [path for path in part if path not in complete]
                    step = ROWS if len(part) > ROWS else 1
                    again.extend(left[i : i + step] for i in range(0, len(left), step))
                give(kind.remote(sent, task), [])
                continue
            except TASK_FAILED as error:
                raise error.cause from None
            if part:
                size = max(ROWS, int(_SECONDS * len(part) / (time.perf_counter() - begin)))
                yield len(part), errors
            else:
                starts = 0
            if todo or again:
                give(actor, next_part())
    finally:
        for actor, _, _ in running.values():
            ray.kill(actor)


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1]
