"""Make the inputs of a network of the images, arrays and values that -i options name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import anylayer.cli as cli
from anylayer.cli.command import say
from anylayer.cli.items import Item, items_of
from anylayer.compile.inputs import has_open_sizes, input_types
from anylayer.compile.plan import require_types
from anylayer.errors import InputError, at, need, need_one_of
from anylayer.images.preprocess import Placement, Recipe, Scale, as_input, prepare, recipe_for
from anylayer.network import Array, TensorType
from anylayer.runtime.order import transposed_inputs

if TYPE_CHECKING:
    from anylayer import Net

_ARRAYS = (".npy", ".npz")
_CHANNELS = (1, 3)
_UNSPECIFIED = "the file does not say how images are preprocessed"
_DEFAULT_SOURCES = {
    "caffe": "no transform_param in the file, no options given",
    "keras": f"{_UNSPECIFIED}; --pixels follows keras.applications",
}
"""The source of a recipe for which neither the file nor the command line specifies anything, by format."""


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
class Loaded:
    """An item's arrays by input, the images (BGR) that they were made from, and the shown part of the first."""

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
            mean = cli.means.parse_mean(options.mean) if options.mean is not None else None
            overridden = mean is not None or options.scale is not None or options.swap or options.cover
            from_file = network.preprocess.get(name)
            if from_file is not None and from_file.mean_file and not overridden:
                from_file = cli.means.with_mean_file(from_file, Path(network.source))
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
        kind = self.types[name]
        shape = kind.shape if kind is not None else self.net.network.open.get(name, ())
        if len(shape) != 4 or name in self.net.network.layouts:
            return False
        return shape[1] not in _CHANNELS and shape[3] in _CHANNELS

    def load_single(self, specs: Sequence[str]) -> Loaded:
        """Read what -i options say, which must give one item. Nothing stands for an input that they leave out."""
        items = items_of(specs, list(self.types))
        need(len(items) == 1, f"this command needs one file per input, got {len(items)}", InputError)
        return self.load(items[0])

    def load(self, item: Item) -> Loaded:
        """Read an item's files. Raises AnyLayerError for a file that cannot be read or does not fit its input."""
        loaded = Loaded({})
        for name, source in item.sources.items():
            if isinstance(source, np.ndarray):
                loaded.arrays[name] = _reshape(source, self.types[name])
            elif source.suffix.lower() == ".npy":
                loaded.arrays[name] = cli.arrays.numeric(cli.arrays.read_npy(source), source)
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
        arrays = {k: cli.arrays.numeric(a, path) for k, a in cli.arrays.read_npz(path).items()}
        if name:
            array = next(iter(arrays.values())) if len(arrays) == 1 else arrays.get(name)
            if array is None:
                raise InputError(f"there is no array '{name}'; the file holds {', '.join(arrays)}", str(path))
            return {name: array}
        for key in arrays:
            need_one_of(key, self.types, f"{path}: the network has no input '{key}'", "its inputs")
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


def _reshape(values: Array, kind: TensorType | None) -> Array:
    """Return values of the command line in the input's shape if they have the right number."""
    if kind is not None and values.size == math.prod(kind.shape):
        return values.reshape(kind.shape)
    return values


def _check(name: str, array: Array, kind: TensorType | None) -> None:
    rank = array.ndim if kind is None else len(kind.shape)
    remedy = ". Add the batch axis: x[None]" if array.ndim == rank - 1 else ""
    need(
        array.ndim == rank,
        f"input '{name}' is {kind} in the file: expected {rank} dimensions, got shape {array.shape}{remedy}",
        InputError,
    )


def _need_shape(name: str, array: Array, shape: Sequence[int] | None) -> None:
    """Raise InputError if an array has other sizes than --shape states. The number of samples may differ."""
    rule = f"input '{name}' has shape {array.shape}, but --shape says {tuple(shape or ())}"
    need(shape is None or array.shape[1:] == tuple(shape[1:]), f"{rule}; leave out --shape for arrays", InputError)


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

    Images for inputs with open sizes in `shapes` keep their size. `images` gets the image (BGR) that an input was
    made from.
    """
    opened = [name for name, shape in shapes.items() if has_open_sizes({name: shape})]
    shapes = {name: shape for name, shape in shapes.items() if name not in opened}
    types = {**input_types(net.network, shapes), **dict.fromkeys(opened)}
    options = options or ImageOptions()
    if opened:
        options = replace(options, size=options.size or "keep")
    arrays: dict[str, Array] = {}
    if specs:
        loaded = Loader(net, types, options, shapes).load_single(specs)
        arrays = loaded.arrays
        if images is not None:
            images.update(loaded.images)
    missing = [name for name in opened if name not in arrays]
    rule = f"with -i, each input with open sizes needs data: give -i {'=FILE -i '.join(missing)}=FILE"
    need(not missing, rule, InputError)
    require_types(net.network, {name: kind for name, kind in types.items() if name not in arrays})
    if len(arrays) == len(types):
        return arrays
    from anylayer.compile.noise import noise

    types.update({name: TensorType(x.shape, x.dtype) for name, x in arrays.items()})
    return {**noise(net.network, net.definitions, types, seed), **arrays}
