"""Write the files that -o options name: arrays, images, or files in a folder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anylayer.cli as cli
from anylayer import inspect
from anylayer.cli.inputs import Loaded
from anylayer.cli.items import Item
from anylayer.cli.results import DRAWN, ShowOptions, channels_first, concat_results, detections, kind_of
from anylayer.errors import InputError, at, given, need, plural
from anylayer.inspect.drawing import to_image
from anylayer.network import Array

_ARRAYS = (".npy", ".npz", ".json")


@dataclass
class OutOption:
    """An -o option. `{name}` in the path stands for the input's file, `{blob}` for the output."""

    text: str

    @property
    def is_folder(self) -> bool:
        """Return whether the option names a folder: it exists, ends with a slash, or has no suffix."""
        path = Path(self.text)
        return self.text.endswith(("/", "\\")) or path.is_dir() or (path.suffix == "" and "{" not in path.name)

    @property
    def holds_arrays(self) -> bool:
        """Return whether the file is .npy, .npz or .json."""
        return Path(self.text).suffix.lower() in _ARRAYS

    @property
    def holds_all_inputs(self) -> bool:
        """Return whether one file holds the results of all inputs."""
        return self.holds_arrays and not self.is_folder and "{name}" not in self.text

    def check(self, items: Sequence[Item]) -> None:
        """Raise InputError, before anything is run, if the results of the items cannot be written."""
        if not self.is_folder and not self.holds_arrays:
            from anylayer.images.files import writable

            suffix = Path(self.text).suffix.lower()
            need(
                suffix in writable(),
                f"-o {self.text}: '{suffix}' is neither the suffix of an image nor one of {', '.join(_ARRAYS)}",
                InputError,
            )
        if len(items) == 1 or self.holds_all_inputs:
            return
        need(
            self.is_folder or "{name}" in self.text,
            f"-o {self.text} is one file, but there are {len(items)} inputs: write into a folder, or put "
            "{name} in the path",
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

    def write(self, item: Item, loaded: Loaded, outputs: Mapping[str, Array], options: ShowOptions) -> list[str]:
        """Write the results of one input. Return a line of the report for each file."""
        if self.is_folder:
            return self._folder(item, loaded, outputs, options)
        if self.holds_arrays:
            path = self._path(item, "")
            if "{blob}" in self.text:
                return [_arrays(self._path(item, n), {n: a}) for n, a in outputs.items()]
            return [_arrays(path, outputs)]
        names = self.drawable(outputs, options)
        return [_draw(self._path(item, name), name, outputs[name], loaded, options) for name in names]

    def drawable(self, outputs: Mapping[str, Array], options: ShowOptions) -> list[str]:
        """Return the outputs to draw: one, or all that can be drawn where {blob} is in the path."""
        names = _drawable(outputs, options)
        need(
            names,
            f"-o {self.text}: no output is a map or detections: {', '.join(map(_description, outputs.items()))}. "
            "Write an .npy, .npz or .json file",
            InputError,
        )
        need(
            len(names) == 1 or "{blob}" in self.text,
            f"-o {self.text} is one file, but there are {len(names)} outputs to draw: {', '.join(names)}. "
            "Select one with --blob, or put {blob} in the path",
            InputError,
        )
        return names

    def write_all(self, results: Sequence[tuple[str, Mapping[str, Array]]]) -> list[str]:
        """Write the results of all inputs, (file, outputs), into one file of arrays. Return report lines."""
        if Path(self.text).suffix.lower() == ".json" and len(results) > 1 and "{blob}" not in self.text:
            return [_results(Path(self.text), results)]
        with at(f"-o {self.text}"):
            joined = concat_results([outputs for _, outputs in results])
        if "{blob}" in self.text:
            return [_arrays(_fill(self.text, "", n), {n: a}) for n, a in joined.items()]
        return [_arrays(Path(self.text), joined)]

    def _path(self, item: Item, blob: str) -> Path:
        return _fill(self.text, item.name, blob)

    def _folder(self, item: Item, loaded: Loaded, outputs: Mapping[str, Array], options: ShowOptions) -> list[str]:
        written = []
        names = _drawable(outputs, options)
        for name, output in outputs.items():
            stem = item.name if len(outputs) == 1 else f"{item.name}_{_safe(name)}"
            if name in names:
                written.append(_draw(Path(self.text) / f"{stem}.png", name, output, loaded, options))
            else:
                written.append(_arrays(Path(self.text) / f"{stem}.npy", {name: output}))
        return written


def _fill(text: str, name: str, blob: str) -> Path:
    return Path(text.replace("{name}", _safe(name)).replace("{blob}", _safe(blob)))


def _safe(name: str) -> str:
    """Return a name from a network's file as a part of a file name, without slashes and leading dots."""
    return re.sub(r"[^\w.@-]+", "_", name).lstrip(".") or "_"


def _drawable(outputs: Mapping[str, Array], options: ShowOptions) -> list[str]:
    return [
        n for n, a in outputs.items() if kind_of(a, options.show, options.channels_last) in ("map", "detections")
    ]


def _description(item: tuple[str, Array]) -> str:
    return f"{item[0]} {list(item[1].shape)}"


def _arrays(path: Path, arrays: Mapping[str, Array]) -> str:
    cli.files.write_arrays(path, arrays)
    return f"wrote {path}: {', '.join(map(_description, arrays.items()))}"


def _results(path: Path, results: Sequence[tuple[str, Mapping[str, Array]]]) -> str:
    plain = [
        {"input": source, "outputs": {n: a.tolist() for n, a in outputs.items()}} for source, outputs in results
    ]
    cli.files.write_text(path, cli.files.to_json(plain) + "\n")
    return f"wrote {path}: the outputs of {plural(len(results), 'input')}"


def _draw(path: Path, name: str, output: Array, loaded: Loaded, options: ShowOptions) -> str:
    from anylayer.images.files import write_image

    with at(str(path)):
        image, what = draw_output(name, output, loaded, options)
    write_image(path, image)
    return f"wrote {path}: {what}"


def draw_output(name: str, output: Array, loaded: Loaded, options: ShowOptions) -> tuple[Array, str]:
    """Return an output as an image, (H, W) or (H, W, 3) in BGR order, and what it shows.

    Detections are drawn on the input's image.
    """
    if kind_of(output, options.show, options.channels_last) == "detections":
        rule = "detections are drawn on the input image, but the input was not an image"
        image = given(loaded.image, rule, InputError)
        objects = detections(output, options, loaded.place)
        boxes = [inspect.boxes.class_box(d.box, d.number, d.score, d.label) for d in objects]
        return inspect.boxes.draw_boxes(image, boxes), f"{len(objects)} of '{name}' drawn"
    with at(f"output '{name}'"):
        output = channels_first(output, options.channels_last)
        need(output.ndim >= 2, f"an image needs 2 dimensions, got {output.ndim}", InputError)
        planes = output.reshape(-1, *output.shape[-2:])
        channels = output.shape[-3] if output.ndim > 2 else 1
        need(len(planes) == channels, f"shape {output.shape} is more than one image", InputError)
        image, what = to_image(planes, options.show if options.show in DRAWN else "auto")
    return image, f"'{name}' {image.shape[1]}x{image.shape[0]}, {what}"
