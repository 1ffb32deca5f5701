"""What -o means: files of arrays, pictures, folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anylayer.cli.files import to_json, write_arrays, write_text
from anylayer.cli.inputs import Item, Loaded
from anylayer.cli.pictures import Box, colours, to_picture
from anylayer.cli.results import PICTURES, Options, channels_first, detections, join, kind_of
from anylayer.errors import InputError, at, need
from anylayer.network import Array

_ARRAYS = (".npy", ".npz", ".json")


@dataclass
class Target:
    """A -o option. `{name}` in the path stands for the input's file, `{blob}` for the output."""

    text: str

    @property
    def is_folder(self) -> bool:
        path = Path(self.text)
        return self.text.endswith(("/", "\\")) or path.is_dir() or (path.suffix == "" and "{" not in path.name)

    @property
    def holds_arrays(self) -> bool:
        return Path(self.text).suffix.lower() in _ARRAYS

    @property
    def joins(self) -> bool:
        """Whether one file holds the results of all inputs."""
        return self.holds_arrays and not self.is_folder and "{name}" not in self.text

    def check(self, items: Sequence[Item]) -> None:
        """Refuse, before anything is run, what cannot be written."""
        if not self.is_folder and not self.holds_arrays:
            from anylayer.cli.images import writable

            suffix = Path(self.text).suffix.lower()
            need(
                suffix in writable(),
                f"-o {self.text}: '{suffix}' is neither a picture's suffix nor one of {', '.join(_ARRAYS)}",
                InputError,
            )
        if len(items) == 1 or self.joins:
            return
        need(
            self.is_folder or "{name}" in self.text,
            f"-o {self.text} is one picture, there are {len(items)} inputs: write into a folder, or put {{name}} "
            "in the path",
            InputError,
        )
        seen: dict[str, Item] = {}
        for item in items:
            other = seen.setdefault(item.name, item)
            need(
                other is item,
                f"-o {self.text}: {other.source} and {item.source} would have the same name",
                InputError,
            )

    def write(self, item: Item, loaded: Loaded, outputs: Mapping[str, Array], options: Options) -> list[str]:
        """Write one input's results; a line for each file."""
        if self.is_folder:
            return self._folder(item, loaded, outputs, options)
        if self.holds_arrays:
            path = self._path(item, "")
            if "{blob}" in self.text:
                return [_arrays(self._path(item, n), {n: a}) for n, a in outputs.items()]
            return [_arrays(path, outputs)]
        drawn = _drawable(outputs, options)
        need(
            drawn,
            f"-o {self.text}: no output is a map or detections: " + ", ".join(map(_described, outputs.items())),
            InputError,
        )
        need(
            len(drawn) == 1 or "{blob}" in self.text,
            f"-o {self.text} is one picture, there are {len(drawn)} outputs to draw: {', '.join(drawn)}. "
            "Choose one with --blob, or put {blob} in the path",
            InputError,
        )
        return [_draw(self._path(item, name), name, outputs[name], loaded, options) for name in drawn]

    def write_all(self, results: Sequence[tuple[str, Mapping[str, Array]]]) -> list[str]:
        """Write all inputs' results, each with its input's file, into one file of arrays; JSON has the files."""
        if Path(self.text).suffix.lower() == ".json" and len(results) > 1 and "{blob}" not in self.text:
            return [_results(Path(self.text), results)]
        with at(f"-o {self.text}"):
            joined = join([outputs for _, outputs in results])
        if "{blob}" in self.text:
            return [_arrays(_filled(self.text, "", n), {n: a}) for n, a in joined.items()]
        return [_arrays(Path(self.text), joined)]

    def _path(self, item: Item, blob: str) -> Path:
        return _filled(self.text, item.name, blob)

    def _folder(self, item: Item, loaded: Loaded, outputs: Mapping[str, Array], options: Options) -> list[str]:
        written = []
        drawn = _drawable(outputs, options)
        for name, output in outputs.items():
            stem = item.name if len(outputs) == 1 else f"{item.name}_{_safe(name)}"
            if name in drawn:
                written.append(_draw(Path(self.text) / f"{stem}.png", name, output, loaded, options))
            else:
                written.append(_arrays(Path(self.text) / f"{stem}.npy", {name: output}))
        return written


def _filled(text: str, name: str, blob: str) -> Path:
    return Path(text.replace("{name}", _safe(name)).replace("{blob}", _safe(blob)))


def _safe(name: str) -> str:
    """A name from a file as part of a file name."""
    return re.sub(r"[^\w.@-]+", "_", name).lstrip(".") or "_"


def _drawable(outputs: Mapping[str, Array], options: Options) -> list[str]:
    return [
        n for n, a in outputs.items() if kind_of(a, options.show, options.channels_last) in ("map", "detections")
    ]


def _described(item: tuple[str, Array]) -> str:
    return f"{item[0]} {list(item[1].shape)}"


def _arrays(path: Path, arrays: Mapping[str, Array]) -> str:
    write_arrays(path, arrays)
    return f"wrote {path}: {', '.join(map(_described, arrays.items()))}"


def _results(path: Path, results: Sequence[tuple[str, Mapping[str, Array]]]) -> str:
    plain = [
        {"input": source, "outputs": {n: a.tolist() for n, a in outputs.items()}} for source, outputs in results
    ]
    write_text(path, to_json(plain) + "\n")
    return f"wrote {path}: the outputs of {len(results)} inputs"


def _draw(path: Path, name: str, output: Array, loaded: Loaded, options: Options) -> str:
    from anylayer.cli.images import write_boxes, write_picture

    if kind_of(output, options.show, options.channels_last) == "detections":
        need(
            loaded.picture is not None,
            f"{path}: detections are drawn on the picture that was run, the input was no picture",
            InputError,
        )
        found = detections(output, options, loaded.place)
        palette = colours(256)
        boxes = [_box(d.box, d.label or str(d.number), d.score, palette[d.number % 255 + 1]) for d in found]
        write_boxes(path, np.asarray(loaded.picture), boxes)
        return f"wrote {path}: {len(found)} of '{name}' drawn"
    with at(f"output '{name}'"):
        output = channels_first(output, options.channels_last)
        need(output.ndim >= 2, f"a picture needs 2 dimensions, got {output.ndim}", InputError)
        planes = output.reshape(-1, *output.shape[-2:])
        channels = output.shape[-3] if output.ndim > 2 else 1
        need(len(planes) == channels, f"shape {output.shape} is more than one picture", InputError)
        picture, what = to_picture(planes, options.show if options.show in PICTURES else "auto")
    write_picture(path, picture)
    return f"wrote {path}: '{name}' {picture.shape[1]}x{picture.shape[0]}, {what}"


def _box(corners: tuple[float, ...], label: str, score: float, colour: Array) -> Box:
    r, g, b = (int(c) for c in colour)
    left, top, right, bottom = corners
    return Box(left, top, right, bottom, f"{label} {score:.2f}", (r, g, b))
