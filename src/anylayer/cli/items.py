"""Read what -i options name: files, values and folders of files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import anylayer.cli as cli
from anylayer.errors import FileError, InputError, need, need_one_of, plural
from anylayer.network import Array

_OTHERS = {
    ".caffemodel": "weights",
    ".h5": "weights",
    **dict.fromkeys((".prototxt", ".onnx", ".pb", ".keras", ".xml"), "a network"),
    ".py": "Python code (layers are given with -l)",
}

_VIDEOS = (".avi", ".flv", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ogv", ".ts", ".webm", ".wmv")
"""The suffixes by which a file is taken for a video."""
NUMBERED = re.compile(r"%0?(\d*)d")
"""The part of a pattern such as frames/%04d.png that stands for numbers."""


@dataclass
class Item:
    """The inputs of one run: for each input a file or values.

    `name` and `source` are the stem and the path of the file that distinguishes the item from others.
    """

    sources: dict[str, Path | Array]
    name: str = "input"
    source: str = ""


def items_of(specs: Sequence[str], names: Sequence[str]) -> list[Item]:
    """Return the items that -i options describe, for a network with inputs `names`.

    "NAME=FILE" is for input NAME, "FILE" for the first input (an .npz: for the inputs that it names), "NAME=[1,
    2]" and "NAME=16000" are values, "[1, 2]" values for the only input. A folder stands for its images and .npy
    files. If an input has several files, there are as many items; an input with one file has it in all items.
    """
    need(names, "the network has no inputs", InputError)
    by_input: dict[str, list[Path | Array]] = {}
    for spec in specs:
        name, sources = _parse(spec, names)
        by_input.setdefault(name, []).extend(sources)
    total = max((len(s) for s in by_input.values()), default=0)
    for name, sources in by_input.items():
        need(
            len(sources) in (1, total),
            f"input '{name}' is given {plural(len(sources), 'time')}, but another input {total} times",
            InputError,
        )
    items = []
    for i in range(total):
        item = Item({n: s[i] if len(s) > 1 else s[0] for n, s in by_input.items()})
        many = [s for n, s in item.sources.items() if isinstance(s, Path) and len(by_input[n]) == total]
        if many:
            item.name, item.source = many[0].stem, str(many[0])
        items.append(item)
    return items


def constants_of(specs: Sequence[str]) -> dict[str, Array]:
    """Return the values of --constant options, by input: NAME=NUMBER, NAME=[1, 2] or NAME=FILE.npy."""
    constants: dict[str, Array] = {}
    for spec in specs:
        name, equals, rest = spec.partition("=")
        need(name and equals, f"--constant is NAME=VALUE, got '{spec}'", InputError)
        need(name not in constants, f"--constant gives '{name}' two values", InputError)
        constants[name] = cli.arrays.read_npy(Path(rest)) if rest.endswith(".npy") else _literal(rest)
    return constants


def _parse(spec: str, names: Sequence[str]) -> tuple[str, list[Path | Array]]:
    name, equals, rest = spec.partition("=")
    if spec.startswith("[") and not Path(spec).exists():
        need(
            len(names) == 1, f"the network has several inputs ({', '.join(names)}): write NAME={spec}", InputError
        )
        return names[0], [_literal(spec)]
    if equals and name in names:
        if rest.startswith("[") or (is_number(rest) and not Path(rest).exists()):
            return name, [_literal(rest)]
        return name, list(_files(Path(rest)))
    path = Path(spec)
    if equals and not path.exists():
        need_one_of(name, names, f"the network has no input '{name}'", "its inputs")
    return "" if path.suffix.lower() == ".npz" else names[0], list(_files(path))


def _literal(text: str) -> Array:
    try:
        values = np.array(_number_or_list(text))
        return values if values.dtype.kind in "ib" else values.astype(np.float32)
    except (ValueError, TypeError, RecursionError, OverflowError):
        raise InputError(f"values are a number or a list of numbers such as [1, 2, 3], got {text}") from None


def _number_or_list(text: str) -> object:
    """Return the number or the list that a text spells; numbers may be spelled as Python does: .5, +3, 5."""
    try:
        return json.loads(text)
    except ValueError:
        return float(text)


def is_number(text: str) -> bool:
    """Return whether a word of the command line is a number, true or false."""
    return bool(re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?|true|false", text))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        if path.suffix.lower() in _OTHERS:
            raise InputError(f"{path} holds {_OTHERS[path.suffix.lower()]}; an input is an image, .npy or .npz")
        if not path.exists():
            raise FileError("there is no such file", str(path))
        if not path.is_file():
            raise FileError("this is a pipe or a device, but an input must be a regular file", str(path))
        return [path]
    from anylayer.images.files import suffixes

    suffixes_read = suffixes() | {".npy"}
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in suffixes_read and p.is_file())
    need(files, f"there are no images and no .npy files in folder {path}", InputError)
    return files


@dataclass(frozen=True)
class Moving:
    """An input that is a video: `name` is the network's input, `source` the file, pattern or camera, and `others`
    are the -i options of other inputs."""

    name: str
    source: str
    others: tuple[str, ...]


def moving_input(
    specs: Sequence[str], names: Sequence[str], outs: Sequence[str], scalars: Sequence[str] = ()
) -> Moving | None:
    """Return the -i option that names a video, a camera ("0") or an image sequence ("frames/%04d.png"), or None.

    scalars: the names of inputs that are numbers, for which "NAME=0" is a number and not a camera.

    A folder of images is a sequence if a video is written. Raises InputError where two options name videos.
    """
    moving = []
    for i, spec in enumerate(specs):
        name, equals, rest = spec.partition("=")
        source = rest if equals and name in names else spec
        if not (name in scalars and is_number(source)) and (
            _moves(source) or (Path(source).is_dir() and any(is_video(out) for out in outs))
        ):
            others = tuple(other for k, other in enumerate(specs) if k != i)
            moving.append(Moving(name if source is rest else names[0], source, others))
    need(len(moving) < 2, f"one input can be a video, got {len(moving)}", InputError)
    need(
        moving or not any(is_video(out) for out in outs),
        "a video is written for a video, a camera, a folder of images or a pattern such as frames/%04d.png",
        InputError,
    )
    return moving[0] if moving else None


def is_video(path: str) -> bool:
    """Return whether a path has the suffix of a video."""
    return Path(path).suffix.lower() in _VIDEOS


def _moves(source: str) -> bool:
    if Path(source).exists():
        return Path(source).is_file() and is_video(source)
    return is_video(source) or bool(re.fullmatch(r"\d{1,2}", source) or NUMBERED.search(Path(source).name))
