"""Random Caffe networks of the layers that OpenCV has, with random values in their fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.hostile.networks import input_, layer

Shape = tuple[int, ...]
Value = Any
"""A number, a bool, an enum's name as a Word, a message as a dict, or a list of values."""


class Word(str):
    """The name of an enum's value, which is written without quotes."""


@dataclass
class Made:
    """A layer of a network: its type, its message with the fields, and the names of its blobs."""

    type: str
    message: str
    fields: dict[str, Value]
    bottoms: list[str]
    tops: list[str]
    name: str

    def text(self) -> str:
        """Return the layer as a file spells it."""
        params = f"{self.message} {_spelled(self.fields)}" if self.message else ""
        return layer(self.type, params, self.bottoms, self.tops, self.name)


@dataclass
class Drawn:
    """A random network. `inputs` are the shapes of its inputs."""

    seed: int
    inputs: dict[str, Shape]
    layers: list[Made] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The prototxt."""
        inputs = "".join(input_(*shape, name=name) for name, shape in self.inputs.items())
        return inputs + "".join(one.text() for one in self.layers)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the values of the inputs."""
        rng = np.random.default_rng(self.seed)
        return {name: values(rng, shape) for name, shape in self.inputs.items()}


def values(rng: np.random.Generator, shape: Shape) -> np.ndarray[Any, Any]:
    """Return numbers whose ties are few and whose powers stay small."""
    return rng.uniform(-2, 2, shape).astype(np.float32)


def _spelled(value: Value) -> str:
    if isinstance(value, dict):
        words = []
        for name, one in value.items():
            for item in one if isinstance(one, list) else [one]:
                words.append(f"{name} {_spelled(item)}" if isinstance(item, dict) else f"{name}: {_spelled(item)}")
        return "{ " + " ".join(words) + " }"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Word):
        return value
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


class Draw:
    """Random choices."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *choices: Any) -> Any:
        """Return one of the arguments."""
        return choices[int(self.rng.integers(len(choices)))]

    def often(self, share: float) -> bool:
        """Return True for this share of the calls."""
        return bool(self.rng.random() < share)

    def some(self, **given: Callable[[], Value]) -> dict[str, Value]:
        """Return each field with its value, or leave it out."""
        return {name: value() for name, value in given.items() if self.often(0.6)}


Rule = Callable[[Draw, Sequence[Shape]], "tuple[str, dict[str, Value]] | None"]
"""A function of the shapes of the inputs. It returns a message with fields, or None where they do not fit."""


def _plain(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    return "", {}


def _is_map(shapes: Sequence[Shape]) -> bool:
    return len(shapes[0]) == 4


def _pair(d: Draw, stem: str, single: str, *choices: int) -> dict[str, Value]:
    """Draw one size for both axes, or one per axis, in either of Caffe's spellings."""
    both = [d.one(*choices), d.one(*choices)]
    how = d.one("one", "one", "each", "list")
    if how == "one":
        return {single: both[0]}
    return {f"{stem}_h": both[0], f"{stem}_w": both[1]} if how == "each" else {single: both}


def _convolution(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    if not _is_map(shapes):
        return None
    channels = shapes[0][1]
    group = d.one(1, 1, *(g for g in (2, 3, 4) if channels % g == 0))
    fields = {"num_output": group * d.one(1, 2, 3), **_pair(d, "kernel", "kernel_size", 1, 2, 3, 4)}
    if d.often(0.5):
        fields |= _pair(d, "stride", "stride", 1, 2, 3)
    if d.often(0.5):
        fields |= _pair(d, "pad", "pad", 0, 1, 2)
    fields |= d.some(bias_term=lambda: d.one(True, False)) | ({"group": group} if group > 1 else {})
    if d.often(0.3):
        fields["dilation"] = d.one(1, 2, [1, 2], [2, 1])
    return "convolution_param", fields


def _depthwise(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    found = _convolution(d, shapes)
    return found and (found[0], found[1] | {"num_output": shapes[0][1], "group": shapes[0][1]})


def _pooling(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    if not _is_map(shapes):
        return None
    fields: dict[str, Value] = d.some(pool=lambda: Word(d.one("MAX", "AVE")))
    if d.often(0.15):
        return "pooling_param", fields | {"global_pooling": True}
    both = d.often(0.7)
    for stem, single, choices in (
        ("kernel", "kernel_size", (1, 2, 3, 4)),
        ("stride", "stride", (1, 2, 3)),
        ("pad", "pad", (0, 1)),
    ):
        if stem == "kernel" or d.often(0.6):
            first, second = d.one(*choices), d.one(*choices)
            fields |= {single: first} if both else {f"{stem}_h": first, f"{stem}_w": second}
    return "pooling_param", fields | ({"ceil_mode": d.one(True, False)} if d.often(0.3) else {})


def _lrn(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    if not _is_map(shapes):
        return None
    return "lrn_param", d.some(
        local_size=lambda: d.one(3, 5),
        alpha=lambda: d.one(1e-4, 0.5, 1.0),
        beta=lambda: d.one(0.75, 0.5),
        k=lambda: d.one(1.0, 2.0),
        norm_region=lambda: Word(d.one("ACROSS_CHANNELS", "WITHIN_CHANNEL")),
    )


def _inner_product(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    return "inner_product_param", {"num_output": d.one(1, 2, 5)} | d.some(
        bias_term=lambda: d.one(True, False), axis=lambda: d.one(1, 1, 1, 0, 2, -1), transpose=lambda: d.often(0.2)
    )


def _of(message: str, **given: Sequence[Value]) -> Rule:
    """Return a rule that draws each field from its values."""

    def rule(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
        return message, d.some(**{name: (lambda v=v: d.one(*v)) for name, v in given.items()})

    return rule


def _concat(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    return "concat_param", d.some(axis=lambda: d.one(1, 1, 0, 2, -1)) or d.some(concat_dim=lambda: d.one(0, 1))


def _slice(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    axis = d.one(*range(len(shapes[0])), -1)
    size = shapes[0][axis]
    if size < 2:
        return None
    fields: dict[str, Value] = {} if axis == 1 and d.often(0.5) else {d.one("axis", "axis", "slice_dim"): axis}
    if size % 2 or d.often(0.6):
        fields["slice_point"] = d.one(*range(1, size))
    if fields.get("slice_dim", 0) < 0:
        fields["axis"] = fields.pop("slice_dim")
    return "slice_param", fields


def _eltwise(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    operation = d.one("SUM", "PROD", "MAX")
    fields: dict[str, Value] = {"operation": Word(operation)} if operation != "SUM" or d.often(0.5) else {}
    if operation == "SUM" and d.often(0.5):
        fields["coeff"] = [d.one(1.0, -1.0, 0.5, 2.0) for _ in shapes]
    return "eltwise_param", fields


def _crop(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    axis = d.one(2, 2, 1, 0, -1)
    fields: dict[str, Value] = {"axis": axis} if axis != 2 or d.often(0.5) else {}
    if d.often(0.6):
        count = len(shapes[0]) - axis % len(shapes[0])
        fields["offset"] = d.one(0, 1) if d.often(0.7) else [d.one(0, 1) for _ in range(count)]
    return "crop_param", fields


def _reshape(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    shape = shapes[0]
    dims = list(d.one([0, -1], [-1], [0, 0, -1], [shape[0], -1, 1], [0, 1, -1], [0, -1, shape[-1]], [1, -1, 1, 1]))
    fields: dict[str, Value] = {"shape": {"dim": dims}}
    return "reshape_param", fields | (d.some(axis=lambda: d.one(0, 1), num_axes=lambda: d.one(1, -1)))


def _permute(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    order = [int(i) for i in d.rng.permutation(len(shapes[0]))]
    return "permute_param", {"order": order[: d.one(len(order), len(order), 2)]}


def _flatten(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    rank = len(shapes[0])
    return "flatten_param", d.some(axis=lambda: d.one(*range(rank), -1), end_axis=lambda: d.one(-1, rank - 1, 1))


def _scale(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    return "scale_param", d.some(
        bias_term=lambda: d.one(True, True, False),
        axis=lambda: d.one(1, 1, 0, 2, -1),
        num_axes=lambda: d.one(1, 2),
    )


def _normalize(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    return (
        ("norm_param", d.some(across_spatial=lambda: d.often(0.5), channel_shared=lambda: d.often(0.5)))
        if _is_map(shapes)
        else None
    )


def _interp(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    fields = d.one(
        {"height": d.one(4, 7), "width": d.one(3, 9)},
        {"zoom_factor": d.one(2, 3)},
        {"shrink_factor": 2},
        {"height": 5, "width": 6, "pad_beg": -1},
    )
    return ("interp_param", fields) if _is_map(shapes) else None


def _prior_box(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    if not all(len(s) == 4 for s in shapes):
        return None
    fields: dict[str, Value] = {"min_size": d.one(3.0, [2.0, 5.0], 4.5)}
    count = len(np.atleast_1d(fields["min_size"]))
    fields |= d.some(
        max_size=lambda: [7.0, 9.5][:count],
        aspect_ratio=lambda: d.one(2.0, [2.0, 3.0]),
        flip=lambda: d.often(0.5),
        clip=lambda: d.often(0.5),
        variance=lambda: d.one(0.2, [0.1, 0.1, 0.2, 0.2]),
        step=lambda: d.one(4.0, 7.5),
        offset=lambda: d.one(0.5, 0.0),
    )
    return "prior_box_param", fields


def _mvn(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    return "mvn_param", d.some(
        normalize_variance=lambda: d.often(0.7), across_channels=lambda: d.often(0.5), eps=lambda: d.one(1e-9, 0.1)
    )


def _batch_norm(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    return "batch_norm_param", d.some(use_global_stats=lambda: d.often(0.8), eps=lambda: d.one(1e-5, 0.01))


def _power(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]]:
    return "power_param", d.some(
        power=lambda: d.one(1.0, 2.0, 3.0),
        scale=lambda: d.one(0.5, -1.0, 2.0),
        shift=lambda: d.one(0.0, 1.0, -0.5),
    )


def _shuffle(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    groups = [g for g in (1, 2, 3, 4) if len(shapes[0]) > 1 and shapes[0][1] % g == 0]
    return ("shuffle_channel_param", {"group": d.one(*groups)}) if groups else None


def _reorg(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    fits = _is_map(shapes) and shapes[0][2] % 2 == shapes[0][3] % 2 == 0
    return ("reorg_param", {"stride": 2}) if fits else None


def _resample(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    if not _is_map(shapes):
        return None
    factor = d.one(1, 2, 3)
    fields = {"height": shapes[0][2] * factor, "width": shapes[0][3] * factor}
    return "resample_param", fields | {"type": Word(d.one("NEAREST", "LINEAR")), "antialias": False}


def _data_augmentation(d: Draw, shapes: Sequence[Shape]) -> tuple[str, dict[str, Value]] | None:
    fields = {"recompute_mean": d.one(1, 1000)} | d.some(mean_per_pixel=lambda: False)
    return ("augmentation_param", fields) if _is_map(shapes) else None


@dataclass(frozen=True)
class Kind:
    """A layer type: its rule, the number of inputs that it reads, and how its shapes relate."""

    rule: Rule
    inputs: tuple[int, ...] = (1,)
    tops: tuple[int, ...] = (1,)
    in_place: bool = False
    same_rank: bool = True


_ACTIVATION: dict[str, Kind] = {
    name: Kind(rule, in_place=True)
    for name, rule in {
        "AbsVal": _plain,
        "BNLL": _plain,
        "BatchNorm": _batch_norm,
        "Dropout": _of("dropout_param", dropout_ratio=(0.3, 0.5)),
        "ELU": _of("elu_param", alpha=(1.0, 0.5)),
        "Exp": _of("exp_param", base=(-1.0, 2.0), scale=(1.0, 0.5, -1.0), shift=(0.0, 0.5)),
        "PReLU": _of("prelu_param", channel_shared=(True, False)),
        "Power": _power,
        "ReLU": _of("relu_param", negative_slope=(0.0, 0.1, -0.5)),
        "ReLU6": _plain,
        "Scale": _scale,
        "Sigmoid": _plain,
        "TanH": _plain,
    }.items()
}
KINDS: dict[str, Kind] = {
    **_ACTIVATION,
    "Axpy": Kind(_plain, (3,)),
    "Concat": Kind(_concat, (1, 2, 2, 3)),
    "Convolution": Kind(_convolution),
    "ConvolutionDepthwise": Kind(_depthwise),
    "Crop": Kind(_crop, (2,)),
    "DataAugmentation": Kind(_data_augmentation),
    "Deconvolution": Kind(_convolution),
    "Eltwise": Kind(_eltwise, (2, 2, 3)),
    "Flatten": Kind(_flatten),
    "InnerProduct": Kind(_inner_product),
    "Interp": Kind(_interp),
    "LRN": Kind(_lrn),
    "MVN": Kind(_mvn),
    "Normalize": Kind(_normalize),
    "Permute": Kind(_permute),
    "Pooling": Kind(_pooling),
    "PriorBox": Kind(_prior_box, (2,)),
    "Reorg": Kind(_reorg),
    "Resample": Kind(_resample),
    "Reshape": Kind(_reshape),
    "ShuffleChannel": Kind(_shuffle),
    "Slice": Kind(_slice, tops=(2,)),
    "Softmax": Kind(_of("softmax_param", axis=(1, 0, 2, -1))),
    "Split": Kind(_plain, tops=(2, 3)),
}


def draw(seed: int, shapes_of: Callable[[Drawn], dict[str, Shape] | None]) -> Drawn:
    """Return the network of a seed. `shapes_of` returns the shapes of a network's blobs, or None if it is refused;
    a layer that is refused stays with a chance of one half as the last one, and is dropped otherwise."""
    d = Draw(seed)
    size = d.one((8, 8), (6, 10), (5, 7), (1, 1), (12, 9))
    first = (d.one(1, 1, 2), d.one(1, 2, 3, 3, 4, 6), *size)
    shapes: dict[str, Shape] = {"data": first if d.often(0.85) else first[: d.one(2, 3)]}
    if d.often(0.3):
        shapes["other"] = d.one(shapes["data"], (*first[:2], 4, 4), first[:2])
    drawn = Drawn(seed, dict(shapes))
    wanted = d.one(1, 1, 2, 3, 4, 5)
    for _ in range(20):
        if len(drawn.layers) == wanted:
            break
        made = _layer(d, len(drawn.layers), shapes)
        if made is None:
            continue
        drawn.layers.append(made)
        found = shapes_of(drawn)
        if found is not None:
            shapes = found
        elif d.often(0.3):
            break
        else:
            drawn.layers.pop()
    read = {name for one in drawn.layers for name in one.bottoms}
    drawn.inputs = {name: shape for name, shape in drawn.inputs.items() if name in read}
    return drawn


def _layer(d: Draw, number: int, shapes: dict[str, Shape]) -> Made | None:
    type_ = d.one(*KINDS)
    kind = KINDS[type_]
    latest = list(shapes)[-1]
    bottoms = [latest if d.often(0.7) else d.one(*shapes)]
    for _ in range(d.one(*kind.inputs) - 1):
        same = [name for name, shape in shapes.items() if len(shape) == len(shapes[bottoms[0]])]
        bottoms.append(d.one(*same))
    found = kind.rule(d, [shapes[b] for b in bottoms])
    if found is None:
        return None
    in_place = kind.in_place and number and d.often(0.4)
    tops = list(bottoms) if in_place else [f"t{number}_{i}" for i in range(d.one(*kind.tops))]
    return Made(type_, *found, bottoms, tops, f"l{number}")
