"""What -i means: pictures, arrays, folders, one for each input of a network."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anylayer.cli.command import say
from anylayer.cli.preprocess import Placement, Recipe, Scale, prepare, recipe_for, with_mean
from anylayer.errors import FileError, InputError, at, nearest, need
from anylayer.network import Array, Preprocess, TensorType, open_text
from anylayer.runtime.order import transposed_inputs

if TYPE_CHECKING:
    from anylayer import Net

_ARRAYS = (".npy", ".npz")
_OTHERS = {
    ".caffemodel": "weights",
    ".h5": "weights",
    **dict.fromkeys((".prototxt", ".onnx", ".pb", ".keras", ".xml"), "a network"),
    ".py": "Python code (layers are given with -l)",
}
_CHANNELS = (1, 3)
_PLAIN = "the file does not say how pictures are prepared"
_UNASKED = {
    "caffe": "no transform_param in the file, none asked for",
    "keras": f"{_PLAIN}; --pixels does as keras.applications",
}
"""Where a recipe comes from that neither the file nor the command line has."""
_MOST = 1 << 33  # bytes of one array of an .npz


@dataclass(frozen=True)
class Wanted:
    """How pictures are made into inputs: what the command line asks for, see `recipe_for`."""

    size: tuple[int, int] | str | None = None
    mean: str | None = None
    scale: Scale | None = None
    swap: bool = False
    cover: bool = False
    gray: bool = False


@dataclass
class Item:
    """One run's inputs: for each input a file or the values themselves. `name` is the first file's."""

    sources: dict[str, Path | Array]
    name: str = "input"
    source: str = ""


@dataclass
class Loaded:
    """An item's arrays by input; of the first picture itself (BGR), and which part of it the input shows."""

    arrays: dict[str, Array]
    picture: Array | None = None
    place: Placement | None = None


@dataclass
class Loader:
    """Reads the items of a network. `types` are its inputs' types, with --shape in place of the file's."""

    net: Net
    types: Mapping[str, TensorType | None]
    wanted: Wanted = field(default_factory=Wanted)
    _recipes: dict[str, Recipe] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)

    def recipe(self, name: str) -> Recipe:
        """What is done to pictures for input `name`."""
        if name not in self._recipes:
            w, network = self.wanted, self.net.network
            mean = read_mean(w.mean) if w.mean is not None else None
            asked = mean is not None or w.scale is not None or w.swap or w.cover
            own = None if asked else _own_mean(network.preprocess.get(name), Path(network.source))
            own = own or network.preprocess.get(name)
            with at(f"input '{name}'"):
                self._recipes[name] = recipe_for(
                    self.types[name],
                    own,
                    last=self.last(name),
                    size=w.size,
                    mean=mean,
                    scale=w.scale,
                    swap=w.swap,
                    cover=w.cover,
                    gray=w.gray,
                    unasked=_UNASKED.get(network.format, _PLAIN),
                )
        return self._recipes[name]

    def last(self, name: str) -> bool:
        """Whether the input takes pictures as (N, H, W, C): as the file says, or because its shape takes them in
        no other way."""
        told = self.net.network.layouts.get(name)
        return told == "NHWC" if told else self._only_last(name)

    def _only_last(self, name: str) -> bool:
        known = self.types[name]
        if known is None or len(known.shape) != 4 or name in self.net.network.layouts:
            return False
        return known.shape[1] not in _CHANNELS and known.shape[3] in _CHANNELS

    def load(self, item: Item) -> Loaded:
        """Read an item's files."""
        loaded = Loaded({})
        for name, source in item.sources.items():
            if isinstance(source, np.ndarray):
                loaded.arrays[name] = _shaped(source, self.types[name])
            elif source.suffix.lower() == ".npy":
                loaded.arrays[name] = _numeric(read_npy(source), source)
            elif source.suffix.lower() == ".npz":
                loaded.arrays.update(self._npz(source, name))
            else:
                loaded.arrays[name] = self._picture(source, name, loaded)
        for name, array in loaded.arrays.items():
            _check(name, array, self.types[name])
        for note in transposed_inputs(
            self.net.network, {name: array.shape for name, array in loaded.arrays.items()}
        ):
            if note not in self._said:
                self._said.add(note)
                say(f"note: {note}")
        return loaded

    def _picture(self, path: Path, name: str, loaded: Loaded) -> Array:
        from anylayer.cli.images import read_picture

        recipe = self.recipe(name)
        picture = read_picture(path)
        with at(str(path)):
            array, place = prepare(picture, recipe)
        if loaded.picture is None:
            loaded.picture, loaded.place = picture, place
        return np.ascontiguousarray(array.transpose(1, 2, 0) if self.last(name) else array)[None]

    def _npz(self, path: Path, name: str) -> dict[str, Array]:
        arrays = {k: _numeric(a, path) for k, a in read_npz(path).items()}
        if name:
            array = next(iter(arrays.values())) if len(arrays) == 1 else arrays.get(name)
            if array is None:
                raise InputError(f"there is no array '{name}'; it holds: {', '.join(arrays)}", str(path))
            return {name: array}
        for key in arrays:
            need(
                key in self.types,
                f"{path}: the network has no input '{key}'{nearest(key, self.types)}; its inputs: "
                f"{', '.join(self.types)}",
                InputError,
            )
        return arrays

    def describe(self, item: Item) -> Iterator[str]:
        """A line for each input that pictures go to: what is done to them."""
        for name, source in item.sources.items():
            if isinstance(source, Path) and source.suffix.lower() not in _ARRAYS:
                lies = ", channels last, as its shape says" if self._only_last(name) else ""
                yield f"input '{name}': {self.recipe(name)}{lies}"

    def batches(self, items: Sequence[Item], size: int) -> Iterator[list[Item]]:
        """The items in groups that can run as one batch: pictures, for a network with nothing but them."""
        group: list[Item] = []
        for item in items:
            sources = list(item.sources.values())
            alone = len(sources) != 1 or not isinstance(sources[0], Path) or sources[0].suffix.lower() in _ARRAYS
            if group and (alone or len(group) == size):
                yield group
                group = []
            group.append(item)
            if alone:
                yield group
                group = []
        if group:
            yield group


def _shaped(values: Array, known: TensorType | None) -> Array:
    """Values of the command line in the input's shape, where their number tells."""
    if known is not None and values.size == math.prod(known.shape):
        return values.reshape(known.shape)
    return values


def _check(name: str, array: Array, known: TensorType | None) -> None:
    rank = array.ndim if known is None else len(known.shape)
    remedy = ". Give the number of samples, too: x[None]" if array.ndim == rank - 1 else ""
    need(
        array.ndim == rank,
        f"input '{name}' is {known} in the file: {rank} dimensions are needed, got shape {array.shape}{remedy}",
        InputError,
    )


def _numeric(array: Array, path: Path) -> Array:
    need(array.dtype.kind in "fiub", f"an array of numbers is needed, got {array.dtype}", InputError)
    need(array.ndim > 0 and array.size > 0, f"{path}: the array is empty: {array.shape}", InputError)
    return array


def items_of(specs: Sequence[str], names: Sequence[str]) -> list[Item]:
    """The items that -i options mean, for a network with inputs `names`.

    "NAME=FILE" is for input NAME, "FILE" for the first one (an .npz: for the inputs it names), "NAME=[1, 2]" are
    the values themselves, "[1, 2]" those of the only input; a folder stands for its pictures and .npy files. Where
    one input has several files there are as many items; an input with one file has it in all of them.
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
            f"input '{name}' is given {len(sources)} times, another one {total} times",
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


def _parse(spec: str, names: Sequence[str]) -> tuple[str, list[Path | Array]]:
    name, equals, rest = spec.partition("=")
    if spec.startswith("[") and not Path(spec).exists():
        need(
            len(names) == 1,
            f"values need the input's name here, one of {', '.join(names)}: NAME={spec}",
            InputError,
        )
        return names[0], [_literal(spec)]
    if equals and name in names:
        if rest.startswith("["):
            return name, [_literal(rest)]
        return name, list(_files(Path(rest)))
    path = Path(spec)
    need(
        path.exists() or not equals,
        f"the network has no input '{name}'{nearest(name, names)}; its inputs: {', '.join(names)}",
        InputError,
    )
    return "" if path.suffix.lower() == ".npz" else names[0], list(_files(path))


def _literal(text: str) -> Array:
    try:
        return np.array(json.loads(text), np.float32)
    except (ValueError, TypeError, RecursionError):
        raise InputError(f"values are given as [1, 2, 3], got {text}") from None


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        if path.suffix.lower() in _OTHERS:
            raise InputError(f"{path} holds {_OTHERS[path.suffix.lower()]}; an input is a picture, .npy or .npz")
        if not path.exists():
            raise FileError("there is no such file", str(path))
        if not path.is_file():
            raise FileError("this is not a file that can be read twice, such as a pipe or a device", str(path))
        return [path]
    from anylayer.cli.images import suffixes

    known = suffixes() | {".npy"}
    found = sorted(p for p in path.iterdir() if p.suffix.lower() in known and p.is_file())
    need(found, f"there are no pictures and no .npy files in folder {path}", InputError)
    return found


def read_npy(path: Path) -> Array:
    """An array of an .npy file, never more than the file holds."""
    with at(str(path)):
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
            return np.array(mapped)
        except FileNotFoundError:
            raise FileError("there is no such file") from None
        except (OSError, FileError):
            raise
        except Exception as error:  # NumPy's parser of a broken header raises many things
            raise FileError(f"this is no .npy file: {_first_line(error)}") from None


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file by name, none larger than its entry says it is, none of 8 GiB or more."""
    with at(str(path)):
        try:
            with zipfile.ZipFile(path) as archive:
                return {e.filename.removesuffix(".npy"): _entry(archive, e) for e in archive.infolist()}
        except FileNotFoundError:
            raise FileError("there is no such file") from None
        except (OSError, FileError):
            raise
        except Exception as error:  # so do NumPy's and zipfile's
            raise FileError(f"this is no .npz file: {_first_line(error)}") from None


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    if entry.file_size >= _MOST:
        raise FileError(f"array '{entry.filename}' is larger than 8 GiB")
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        size = dtype.itemsize * int(np.prod([int(d) for d in shape], dtype=object))
        if dtype.hasobject or size > entry.file_size:
            needs = f"{dtype}{list(shape)} needs {size}"
            raise FileError(f"array '{entry.filename}' has {entry.file_size} bytes, {needs}")
    with archive.open(entry) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def read_mean(text: str) -> Array:
    """--mean: `104,117,123` (one value a channel, or one for all), or the file of a mean picture."""
    try:
        values = [float(v) for v in text.split(",")]
    except ValueError:
        return _mean_file(Path(text))
    need(len(values) in (1, 3), f"--mean has 1 or 3 values, got {len(values)}", InputError)
    return np.array(values, np.float32)


def _mean_file(path: Path) -> Array:
    if path.suffix.lower() == ".npy":
        mean = _numeric(read_npy(path), path).astype(np.float32)
    else:
        from anylayer.readers._protobuf import Buffer
        from anylayer.readers.caffe.wire import read_blob

        with at(str(path)):
            need(path.is_file(), "there is no such file; a mean is B,G,R or a file", FileError)
            buffer = Buffer(path)
            mean = np.array(read_blob(buffer, 0, buffer.size).array(), np.float32)
    if mean.ndim == 1:
        return mean
    with at(str(path)):
        found = with_mean(Preprocess(), mean).mean
    need(found is not None, "no mean")
    return found  # type: ignore[return-value]


def _own_mean(own: Preprocess | None, model: Path) -> Preprocess | None:
    """The file's own transform_param with its mean file read: beside the model, or in folders below it."""
    if own is None or not own.mean_file or own.mean is not None:
        return own
    named = Path(own.mean_file)
    beside = model.parent / named.name
    tried = [beside] if named.is_absolute() or ".." in named.parts else [model.parent / named, beside]
    for path in tried:
        if path.is_file():
            with at(str(path)):
                return with_mean(own, _mean_file(path))
    raise InputError(
        f"{model}: mean_file '{own.mean_file}' is not beside the model. Give the mean: --mean FILE or --mean B,G,R"
    )


def pictures_to_compare(
    net: Net, specs: Sequence[str], shape: tuple[int, ...], order: str, seed: int
) -> dict[str, Array]:
    """Return the inputs of a network that takes uint8 pictures (N, H, W, 3): a picture, or seeded noise.

    specs: as -i has them, one picture at most. order: "rgb" or "bgr". The other inputs are noise.
    """
    from anylayer.cli.images import read_picture

    name, *others = net.network.inputs
    arrays = {n: a for n, a in feed(net, [], {}, seed).items() if n in others}
    if not specs:
        noise = np.random.default_rng(seed).integers(0, 256, shape)
        return {name: noise.astype(np.uint8), **arrays}
    need(len(specs) == 1, "with --preprocess, give one picture to compare on", InputError)
    path = Path(specs[0].partition("=")[2] or specs[0])
    picture = read_picture(path)
    need(
        picture.shape == shape[1:],
        f"{path}: the picture is {picture.shape[1]}x{picture.shape[0]}, the file takes {shape[2]}x{shape[1]}; "
        f"give --picture {picture.shape[1]}x{picture.shape[0]}",
        InputError,
    )
    ordered = picture[:, :, ::-1] if order == "rgb" else picture
    return {name: np.ascontiguousarray(np.broadcast_to(ordered, shape)), **arrays}


def feed(net: Net, specs: Sequence[str], shapes: Mapping[str, Sequence[int]], seed: int = 0) -> dict[str, Array]:
    """One array an input: from -i options (their first item), and seeded noise for the inputs they leave out."""
    from anylayer.compile.nodes import input_types

    types = input_types(net.network, shapes)
    arrays: dict[str, Array] = {}
    if specs:
        items = items_of(specs, list(types))
        need(len(items) == 1, f"one item of input is needed here, got {len(items)}", InputError)
        arrays = Loader(net, types).load(items[0]).arrays
    random = np.random.default_rng(seed)
    for name, known in types.items():
        noise = name not in arrays
        left_open = net.network.open.get(name)
        where = f"is {open_text(left_open)} in the file" if left_open else "is not in the file"
        need(
            known is not None or not noise,
            f"{net.network.source}: the shape of input '{name}' {where}: give --shape {name}=N,C,H,W",
            InputError,
        )
        if noise and known is not None:
            arrays[name] = random.standard_normal(known.shape, np.float32).astype(known.dtype)
    return arrays
