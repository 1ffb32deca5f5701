"""Run a network on the frames of a video, a camera or an image sequence.

Three threads work at once: one decodes and preprocesses frames, one runs the network, one draws and encodes.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from anylayer.cli.command import echo, say
from anylayer.cli.files import to_json
from anylayer.cli.inputs import Loaded, Loader
from anylayer.cli.items import NUMBERED, Item, Moving, is_video, items_of
from anylayer.cli.progress import progress
from anylayer.cli.results import json_data
from anylayer.cli.targets import OutOption, draw_output
from anylayer.errors import FileError, InputError, need, plural
from anylayer.libraries.video import WRITABLE, VideoReader, VideoWriter, create_video, open_camera, open_video
from anylayer.libraries.whole import whole_path
from anylayer.network import Array

if TYPE_CHECKING:
    from anylayer.cli.presenter import Presenter
    from anylayer.cli.running import Outputs


_FPS = 25.0
"""The frames per second of a written video whose source does not give them."""


class ImageSequence:
    """The images of a folder or a pattern as frames: see libraries.video.VideoReader."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self.size = (0, 0)
        self.fps = 0.0
        self.claimed = len(files)
        self.lost = self.partial = 0
        self.skipped: list[str] = []

    def __iter__(self) -> Iterator[Array]:
        from anylayer.images.files import read_image

        for path in self._files:
            try:
                image = read_image(path)
            except FileError as error:
                if self.claimed == 1:
                    raise
                self.lost += 1
                self.skipped.append(f"skipped: {error}")
            else:
                yield image

    def close(self) -> None:
        """Do nothing: each image is closed when it is read."""


def open_moving(source: str) -> VideoReader:
    """Open a video, a camera or an image sequence."""
    path = Path(source)
    if path.is_dir():
        from anylayer.images.files import suffixes

        suffixes_read = suffixes()
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in suffixes_read and p.is_file())
        need(files, f"there are no images in folder {path}", InputError)
        return ImageSequence(files)
    if path.exists() or is_video(source):
        return open_video(path)
    if source.isdigit():
        return open_camera(int(source))
    return ImageSequence(_numbered_files(path))


def _numbered_files(pattern: Path) -> list[Path]:
    """Return the files that a pattern such as frames/%04d.png names, by their numbers."""
    match = NUMBERED.search(pattern.name)
    if match is None or not pattern.parent.is_dir():
        raise FileError("there is no such file", str(pattern))
    width = int(match[1] or 1)
    head, tail = re.escape(pattern.name[: match.start()]), re.escape(pattern.name[match.end() :])
    files = {}
    for path in pattern.parent.iterdir():
        number = re.fullmatch(rf"{head}(\d{{{width},}}){tail}", path.name)
        if number and path.is_file():
            files[int(number[1])] = path
    need(files, f"no file has a name like {pattern}", InputError)
    return [files[n] for n in sorted(files)]


# ---------------------------------------------------------------------- results


class Film:
    """A video that is written under a temporary name. The first frame decides the size."""

    def __init__(self, path: Path, temporary: Path, fps: float) -> None:
        self.path, self._temporary, self.fps = path, temporary, fps
        self.frames = 0
        self.size = (0, 0)
        self._writer: VideoWriter | None = None

    def add(self, image: Array) -> None:
        """Add a frame, (H, W) or (H, W, 3). An odd side is extended by its last row or column.

        Raises InputError for a frame of another size than the first.
        """
        image = image if image.ndim == 3 else np.repeat(image[:, :, None], 3, 2)
        if self._writer is None:
            self.size = image.shape[:2]
            height, width = (side + side % 2 for side in self.size)
            self._writer = create_video(self._temporary, (height, width), self.fps)
        need(
            image.shape[:2] == self.size,
            f"{self.path}: frame {self.frames} is {image.shape[1]}x{image.shape[0]}, but the frames before it are "
            f"{self.size[1]}x{self.size[0]}",
            InputError,
        )
        odd = [(0, side % 2) for side in self.size]
        self._writer.write(np.ascontiguousarray(np.pad(image, [*odd, (0, 0)], mode="edge")))
        self.frames += 1

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __str__(self) -> str:
        return f"wrote {self.path}: {plural(self.frames, 'frame')} of {self.size[1]}x{self.size[0]}"


@contextmanager
def filming(path: Path, fps: float) -> Iterator[Film]:
    """Yield a video that appears as `path` where the block ends without an error."""
    with whole_path(path) as temporary:
        film = Film(path, temporary, fps)
        try:
            yield film
        finally:
            film.close()


@dataclass
class VideoRun:
    """Runs the frames of a moving input: results go to stdout and files, the report to stderr.

    `limit` is the largest number of frames, 0 for all. `fps` are the frames per second of written videos, 0 for
    those of the source.
    """

    presenter: Presenter
    moving: Moving
    limit: int = 0
    fps: float = 0.0

    def run(self) -> int:
        """Run all frames, and return how many of them are damaged. Ctrl-C ends a camera, and keeps its video."""
        presenter, loader = self.presenter, self.presenter.runner.loader
        for target in presenter.targets:
            _check(target)
        fixed = _fixed_inputs(loader, self.moving)
        with ExitStack() as stack:
            reader = stack.enter_context(closing(open_moving(self.moving.source)))
            fps = self.fps or reader.fps or _FPS
            films = {
                target.text: stack.enter_context(filming(Path(target.text), fps))
                for target in presenter.targets
                if is_video(target.text)
            }
            say(f"input '{self.moving.name}': {loader.recipe(self.moving.name)}", presenter.quiet)
            start = time.perf_counter()
            count = self._frames(reader, fixed, films, fps)
            seconds = time.perf_counter() - start
            need(count, f"{self.moving.source}: no frame could be decoded", FileError)
        lines = [*map(str, films.values()), f"{plural(count, 'frame')}, {count / seconds:.3g} frames per second"]
        damaged = reader.lost + reader.partial
        if reader.claimed > count and not self.limit and not damaged:
            lines.append(f"note: the file claims {plural(reader.claimed, 'frame')}; {count} could be decoded")
        presenter.report(lines)
        if damaged:
            text = f"{reader.lost} of {plural(count + reader.lost, 'frame')} could not be read"
            part = f", {reader.partial} only in part" if reader.partial else ""
            say(f"{self.moving.source}: {text}{part}")
        return damaged

    def _frames(self, reader: VideoReader, fixed: Loaded, films: Mapping[str, Film], fps: float) -> int:
        """Decode, run and draw the frames, each in a thread of its own. Return how many there were."""
        presenter = self.presenter
        loader, name, count = presenter.runner.loader, self.moving.name, 0

        def load() -> Iterator[Loaded]:
            for image in islice(reader, self.limit or None):
                loaded = Loaded(dict(fixed.arrays), dict(fixed.images))
                loaded.arrays[name] = loader.prepared(image, name, loaded)
                yield loaded

        def draw(item: Item, loaded: Loaded, outputs: Outputs) -> None:
            for target in presenter.targets:
                if target.text in films:
                    (blob,) = target.drawable(outputs, presenter.options)
                    films[target.text].add(draw_output(blob, outputs[blob], loaded, presenter.options)[0])
                else:
                    target.write(item, loaded, outputs, presenter.options)

        total = min(reader.claimed, self.limit or reader.claimed)
        with (
            closing(ahead(load())) as loading,
            behind(draw) as put,
            progress(total, presenter.quiet, "frames") as bar,
        ):
            advance, tell, warn = bar
            try:
                for loaded in loading:
                    item = Item({}, f"{_stem(self.moving.source)}_{count:06}", f"frame {count}")
                    outputs = presenter.runner.one(loaded)
                    self._show(item, loaded, outputs, count, fps, tell)
                    put(item, loaded, outputs)
                    count += 1
                    advance()
            except KeyboardInterrupt:
                if not self.moving.source.isdigit():
                    raise
            for text in reader.skipped:
                warn(text)
        return count

    def _show(
        self, item: Item, loaded: Loaded, outputs: Outputs, count: int, fps: float, tell: Callable[[str], None]
    ) -> None:
        """Print the outputs of a frame: as one line of JSON, or as text if no file gets them."""
        presenter = self.presenter
        if not presenter.as_json:
            if not presenter.targets:
                presenter.show(item, loaded, outputs, True, tell)
            return
        shown = {name: json_data(name, a, presenter.options, loaded.place) for name, a in outputs.items()}
        echo(to_json({"frame": count, "time": count / fps, "outputs": shown}))


def _check(target: OutOption) -> None:
    """Refuse, before anything is run, a target that cannot hold the results of frames."""
    if is_video(target.text):
        suffix = Path(target.text).suffix.lower()
        need(
            "{" not in target.text, f"-o {target.text}: a video has no placeholders; select an output with --blob"
        )
        need(suffix in WRITABLE, f"-o {target.text}: videos are written as {', '.join(WRITABLE)}", InputError)
        return
    need(
        target.is_folder or "{name}" in target.text,
        f"-o {target.text} is one file, but a video has many frames: write a video (.mp4), into a folder, or "
        "put {name} in the path. --json prints a line per frame",
        InputError,
    )


def _fixed_inputs(loader: Loader, moving: Moving) -> Loaded:
    """Return the inputs that are the same for all frames."""
    if not moving.others:
        return Loaded({})
    items = items_of(moving.others, list(loader.types))
    need(len(items) == 1, f"with a video, every other input takes one file, got {len(items)}", InputError)
    return loader.load(items[0])


def _stem(source: str) -> str:
    """Return the part of frame names that identifies the source."""
    return f"camera{source}" if source.isdigit() else Path(source).stem.partition("%")[0].rstrip("_-") or "frame"


T = TypeVar("T")
_AHEAD = 4
"""The number of items that wait between two threads."""


def ahead(items: Iterator[T], depth: int = _AHEAD) -> Generator[T, None, None]:
    """Yield what an iterator gives, computed by a thread at most `depth` ahead. Its errors are raised here."""
    end, pool = object(), ThreadPoolExecutor(1)
    try:
        waiting = deque(pool.submit(next, items, end) for _ in range(depth))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, items, end))
            yield cast(T, item)
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def behind(act: Callable[..., None], depth: int = _AHEAD) -> Iterator[Callable[..., None]]:
    """Yield a function that queues items, for each of which a thread of its own calls `act`.

    All items are done when the block ends. An error of `act` is raised by a later call, or at the end, and the
    items after it are left out.
    """
    waiting: deque[Future[None]] = deque()
    failed = Event()

    def step(*item: Any) -> None:
        if not failed.is_set():
            try:
                act(*item)
            except BaseException:
                failed.set()
                raise

    def put(*item: Any) -> None:
        while waiting and (failed.is_set() or len(waiting) == depth):
            waiting.popleft().result()
        waiting.append(pool.submit(step, *item))

    with ThreadPoolExecutor(1) as pool:
        yield put
    for future in waiting:
        future.result()
