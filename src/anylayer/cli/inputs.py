"""Read the inputs that -i options name: images, arrays, values and folders of files."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anylayer.cli.command import say
from anylayer.compile.inputs import input_types
from anylayer.compile.plan import require_types
from anylayer.errors import FileError, InputError, at, nearest, need, plural
from anylayer.images.preprocess import Placement, Recipe, Scale, as_input, prepare, recipe_for, with_mean
from anylayer.network import Array, Preprocess, TensorType
from anylayer.readers._protobuf import MappedFile
from anylayer.readers._recognize import describe
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
_UNSPECIFIED = "the file does not say how images are preprocessed"
_DEFAULT_SOURCES = {
    "caffe": "no transform_param in the file, no options given",
    "keras": f"{_UNSPECIFIED}; --pixels follows keras.applications",
}
"""The source of a recipe for which neither the file nor the command line specifies anything, by format."""

_MAX_ARRAY_BYTES = 1 << 33
"""Bytes of one array of an .npz file."""
_OBJECTS = "the array holds Python objects, which are not read; save it with a dtype of numbers"


@dataclass(frozen=True)
class ImageOptions:
    """The command line's options for preprocessing images; see `recipe_for`."""

    size: tuple[int, int] | str | None = None
    mean: str | None = None
    scale: Scale | None = None
    swap: bool = False
    cover: bool = False
    gray: bool = False


@dataclass
class Item:
    """The inputs of one run: for each input a file or values.

    `name` and `source` are the stem and the path of the file that distinguishes the item from others.
    """

    sources: dict[str, Path | Array]
    name: str = "input"
    source: str = ""


@dataclass
class Loaded:
    """An item's arrays by input, the images (BGR) that they were made from, and the part of the first image which
    the input shows."""

    arrays: dict[str, Array]
    images: dict[str, Array] = field(default_factory=dict)
    place: Placement | None = None

    @property
    def image(self) -> Array | None:
        """The first image."""
        return next(iter(self.images.values()), None)


@dataclass
class Loader:
    """Reads the items of a network. `types` are the types of its inputs, with the `shapes` of --shape applied."""

    net: Net
    types: Mapping[str, TensorType | None]
    options: ImageOptions = field(default_factory=ImageOptions)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    _recipes: dict[str, Recipe] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)

    def recipe(self, name: str) -> Recipe:
        """Return how images are preprocessed for input `name`."""
        if name not in self._recipes:
            options, network = self.options, self.net.network
            mean = read_mean(options.mean) if options.mean is not None else None
            overridden = mean is not None or options.scale is not None or options.swap or options.cover
            from_file = None if overridden else _with_mean_file(network.preprocess.get(name), Path(network.source))
            from_file = from_file or network.preprocess.get(name)
            stated, dtype = network.channel_orders.get(name), network.input_dtype(name)
            with at(f"input '{name}'"):
                rule = f"the file takes images as {dtype}, so --mean, --scale and --pixels do not apply"
                need(dtype.kind not in "iub" or (mean is None and options.scale is None), rule, InputError)
                rule = "the file takes images in BGR order: leave out --swap-rb"
                need(stated != "BGR" or not options.swap, rule, InputError)
                recipe = recipe_for(
                    self.types[name] or network.open.get(name),
                    from_file,
                    channels_last=self.channels_last(name),
                    size=options.size,
                    mean=mean,
                    scale=options.scale,
                    swap=options.swap,
                    cover=options.cover,
                    gray=options.gray,
                    default_source=_DEFAULT_SOURCES.get(network.format, _UNSPECIFIED),
                )
            if stated:
                recipe = replace(recipe, swap=stated == "RGB", source=f"the file takes images in {stated} order")
            self._recipes[name] = recipe
        return self._recipes[name]

    def channels_last(self, name: str) -> bool:
        """Return whether an input's images are (N, H, W, C), as the file says or as its shape requires."""
        layout = self.net.network.layouts.get(name)
        return layout == "NHWC" if layout else self._shape_is_channels_last(name)

    def _shape_is_channels_last(self, name: str) -> bool:
        known = self.types[name]
        shape = known.shape if known is not None else self.net.network.open.get(name, ())
        if len(shape) != 4 or name in self.net.network.layouts:
            return False
        return shape[1] not in _CHANNELS and shape[3] in _CHANNELS

    def load(self, item: Item) -> Loaded:
        """Read an item's files. Raises AnyLayerError for a file that cannot be read or does not fit its input."""
        loaded = Loaded({})
        for name, source in item.sources.items():
            if isinstance(source, np.ndarray):
                loaded.arrays[name] = _shaped(source, self.types[name])
            elif source.suffix.lower() == ".npy":
                loaded.arrays[name] = _numeric(read_npy(source), source)
            elif source.suffix.lower() == ".npz":
                loaded.arrays.update(self._npz(source, name))
            else:
                loaded.arrays[name] = self._image(source, name, loaded)
        for name, array in loaded.arrays.items():
            _check(name, array, self.types[name])
            if name not in loaded.images:
                _need_shape(name, array, self.shapes.get(name))
        for note in transposed_inputs(
            self.net.network, {name: array.shape for name, array in loaded.arrays.items()}
        ):
            if note not in self._said:
                self._said.add(note)
                say(f"note: {note}")
        return loaded

    def _image(self, path: Path, name: str, loaded: Loaded) -> Array:
        from anylayer.images.files import read_image

        with at(str(path)):
            return self.prepared(read_image(path), name, loaded)

    def prepared(self, image: Array, name: str, loaded: Loaded) -> Array:
        """Return the array of input `name` for an image (BGR), and add the image to `loaded`."""
        array, place = prepare(image, self.recipe(name))
        if not loaded.images:
            loaded.place = place
        loaded.images[name] = image
        return as_input(array, self.channels_last(name), self.net.network.input_dtype(name))

    def _npz(self, path: Path, name: str) -> dict[str, Array]:
        arrays = {k: _numeric(a, path) for k, a in read_npz(path).items()}
        if name:
            array = next(iter(arrays.values())) if len(arrays) == 1 else arrays.get(name)
            if array is None:
                raise InputError(f"there is no array '{name}'; the file holds {', '.join(arrays)}", str(path))
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
        """Yield for each input that gets an image a line that says how the image is preprocessed."""
        for name, source in item.sources.items():
            if isinstance(source, Path) and source.suffix.lower() not in _ARRAYS:
                layout = ", channels-last because of its shape" if self._shape_is_channels_last(name) else ""
                yield f"input '{name}': {self.recipe(name)}{layout}"

    def batches(self, items: Sequence[Item], size: int) -> Iterator[list[Item]]:
        """Yield groups of items that can run as one batch: up to `size` images of a network's only input."""
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
    """Return values of the command line in the input's shape if they have the right number."""
    if known is not None and values.size == math.prod(known.shape):
        return values.reshape(known.shape)
    return values


def _check(name: str, array: Array, known: TensorType | None) -> None:
    rank = array.ndim if known is None else len(known.shape)
    remedy = ". Add the batch axis: x[None]" if array.ndim == rank - 1 else ""
    need(
        array.ndim == rank,
        f"input '{name}' is {known} in the file: expected {rank} dimensions, got shape {array.shape}{remedy}",
        InputError,
    )


def _need_shape(name: str, array: Array, shape: Sequence[int] | None) -> None:
    """Raise InputError if an array has other sizes than --shape states. The number of samples may differ."""
    rule = f"input '{name}' has shape {array.shape}, but --shape says {tuple(shape or ())}"
    need(shape is None or array.shape[1:] == tuple(shape[1:]), f"{rule}; leave out --shape for arrays", InputError)


def _numeric(array: Array, path: Path) -> Array:
    need(array.dtype.kind in "fiub", f"{path}: the array must hold numbers, got dtype {array.dtype}", InputError)
    need(
        array.ndim > 0 and array.size > 0, f"{path}: the array has shape {array.shape} and no elements", InputError
    )
    return array


def items_of(specs: Sequence[str], names: Sequence[str]) -> list[Item]:
    """Return the items that -i options describe, for a network with inputs `names`.

    "NAME=FILE" is for input NAME, "FILE" for the first input (an .npz: for the inputs that it names), "NAME=[1,
    2]" are values, "[1, 2]" values for the only input. A folder stands for its images and .npy files. If an input
    has several files, there are as many items; an input with one file has it in all items.
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


def _parse(spec: str, names: Sequence[str]) -> tuple[str, list[Path | Array]]:
    name, equals, rest = spec.partition("=")
    if spec.startswith("[") and not Path(spec).exists():
        need(
            len(names) == 1,
            f"the network has several inputs ({', '.join(names)}): write NAME={spec}",
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
        raise InputError(f"values are a list of numbers such as [1, 2, 3], got {text}") from None


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

    known = suffixes() | {".npy"}
    found = sorted(p for p in path.iterdir() if p.suffix.lower() in known and p.is_file())
    need(found, f"there are no images and no .npy files in folder {path}", InputError)
    return found


def read_npy(path: Path) -> Array:
    """Read an .npy file. Raises FileError where its header claims more data than the file has."""
    with at(str(path)):
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
            return np.array(mapped)
        except FileNotFoundError:
            raise FileError("there is no such file") from None
        except (OSError, FileError):
            raise
        except Exception as error:  # NumPy raises many types of errors for a broken header
            text = _first_line(error)
            need("Python objects" not in text, _OBJECTS, FileError)
            raise FileError(f"this is not an .npy file: {text}") from None


def read_npz(path: Path) -> dict[str, Array]:
    """Read the arrays of an .npz file by name. Raises FileError for a header that claims too much data."""
    with at(str(path)):
        try:
            with zipfile.ZipFile(path) as archive:
                return {e.filename.removesuffix(".npy"): _entry(archive, e) for e in archive.infolist()}
        except FileNotFoundError:
            raise FileError("there is no such file") from None
        except (OSError, FileError):
            raise
        except Exception as error:  # NumPy and zipfile raise many types of errors
            raise FileError(f"this is not an .npz file: {_first_line(error)}") from None


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    if entry.file_size >= _MAX_ARRAY_BYTES:
        raise FileError(f"array '{entry.filename}' is larger than 8 GiB")
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        size = dtype.itemsize * int(np.prod([int(d) for d in shape], dtype=object))
        need(not dtype.hasobject, f"array '{entry.filename}': {_OBJECTS}", FileError)
        if size > entry.file_size:
            needs = f"{dtype}{list(shape)} needs {size}"
            raise FileError(f"array '{entry.filename}' has {entry.file_size} bytes, but {needs}")
    with archive.open(entry) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def read_mean(text: str) -> Array:
    """Return the value of --mean: 1 or 3 values (`104,117,123`), or a mean image (C, H, W) from a file."""
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
        from anylayer.readers.caffe.wire import read_blob

        with at(str(path)):
            need(path.is_file(), "there is no such file; a mean is B,G,R or a file", FileError)
            what = describe(path)
            mean_like = what in ("", "a Caffe blob (.binaryproto)")
            need(mean_like, f"this is {what}, not a mean (.npy or .binaryproto)", FileError)
            buffer = MappedFile(path)
            mean = np.array(read_blob(buffer, 0, buffer.size).array(), np.float32)
    if mean.ndim == 1:
        return mean
    with at(str(path)):
        found = with_mean(Preprocess(), mean).mean
    if found is None:
        raise FileError("no mean")
    return found


def _with_mean_file(own: Preprocess | None, model: Path) -> Preprocess | None:
    """Return the preprocessing with its mean file read, which is searched in the model's folder and below."""
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
        f"{model}: mean_file '{own.mean_file}' is not in the model's folder. Give --mean FILE or --mean B,G,R"
    )


def images_to_compare(
    net: Net, specs: Sequence[str], shape: tuple[int, ...], seed: int, *, any_size: bool = False
) -> dict[str, Array]:
    """Return the inputs of a network whose first input is uint8 images (N, H, W, 3): an image, or seeded noise.

    specs: the -i options, at most one image. any_size: whether the image may have another size
    than `shape`. The other inputs are noise.
    """
    from anylayer.images.files import read_image

    name = next(iter(net.network.inputs))
    arrays = feed(net, [], {name: shape}, seed)
    if not specs:
        return arrays
    need(len(specs) == 1, "--preprocess needs one image for the comparison, got several", InputError)
    path = Path(specs[0].partition("=")[2] or specs[0])
    image = read_image(path)
    shape = (shape[0], *image.shape) if any_size else shape
    need(
        image.shape == shape[1:],
        f"{path}: the image is {image.shape[1]}x{image.shape[0]}, but the file accepts {shape[2]}x{shape[1]}; "
        f"give --picture {image.shape[1]}x{image.shape[0]}",
        InputError,
    )
    ordered = image[:, :, ::-1] if net.network.channel_orders[name] == "RGB" else image
    return {**arrays, name: np.ascontiguousarray(np.broadcast_to(ordered, shape))}


def feed(
    net: Net,
    specs: Sequence[str],
    shapes: Mapping[str, Sequence[int]],
    seed: int = 0,
    options: ImageOptions | None = None,
    images: dict[str, Array] | None = None,
) -> dict[str, Array]:
    """Return one array per input: from -i options, which must give one item, and seeded noise for other inputs.

    `images` gets the image (BGR) that an input was made from.
    """
    types = input_types(net.network, shapes)
    arrays: dict[str, Array] = {}
    if specs:
        items = items_of(specs, list(types))
        need(len(items) == 1, f"this command needs one file per input, got {len(items)}", InputError)
        loaded = Loader(net, types, options or ImageOptions(), shapes).load(items[0])
        arrays = loaded.arrays
        if images is not None:
            images.update(loaded.images)
    require_types(net.network, {name: known for name, known in types.items() if name not in arrays})
    if len(arrays) == len(types):
        return arrays
    from anylayer.compile.noise import noise

    types.update({name: TensorType(x.shape, x.dtype) for name, x in arrays.items()})
    return {**noise(net.network, net.definitions, types, seed), **arrays}
