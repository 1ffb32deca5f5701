"""Sections that combine the results of earlier sections."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Array, Enum, attribute, field, layer, need, need_shape
from anylayer.layers.darknet._base import ACTIVATION, ACTIVATIONS, DarknetLayer


@layer("route")
class Route(DarknetLayer):
    """Concatenate the channels of the sections `layers`; with `groups`, one group of the channels of each.

    (N, Ci, H, W) to (N, sum of Ci / groups, H, W).
    Source: AlexeyAB/darknet src/route_layer.c.
    """

    prefix = "concat"
    sources = ("layers",)
    groups: int = field(0, "int32", 1, least=1, doc="number of groups of channels")
    group_id: int = field(0, "int32", 0, least=0, doc="the group that is used")

    def forward(self, *xs: Array) -> Array:
        need(self.group_id < self.groups, f"group_id={self.group_id} must be less than groups={self.groups}")
        parts = []
        for x in xs:
            c = x.shape[1]
            need(c % self.groups == 0, f"groups={self.groups} does not divide {c} channels")
            rule = f"maps of {_planes(xs[0], x)} cannot be concatenated"
            need(tuple(x.shape[2:]) == tuple(xs[0].shape[2:]), rule)
            parts.append(x[:, self.group_id * c // self.groups : (self.group_id + 1) * c // self.groups])
        return np.concatenate(parts, axis=1)


def _planes(*xs: Array) -> str:
    return " and ".join("x".join(map(str, x.shape[2:])) for x in xs)


@layer("shortcut")
class Shortcut(DarknetLayer):
    """Add the results of the sections `from` to the section's input, weighted with `weights_type`.

    (N, C, H, W) and maps of the same size to (N, C, H, W). Of a map n times as large, every n-th pixel is added,
    except in the fork. A map with fewer channels is added to the first ones, and of a map with more channels the
    first ones are added. The file has a weight for each input (per_feature, per_layer), or one for each channel of
    each input (per_channel). `weights_normalization` makes them shares of their sum plus 1e-4. OpenCV ignores all
    weights, and every source but the first.
    Source: AlexeyAB/darknet src/shortcut_layer.c, src/blas.c shortcut_multilayer_cpu.
    """

    sources = ("from",)
    neutral = {"alpha": 1, "beta": 1}
    weights_type: str = attribute(
        Enum("none", "per_feature", "per_layer", "per_channel"), "none", doc="what has a weight"
    )
    weights_normalization: str = attribute(
        Enum("none", "relu", "avg_relu", "softmax"), "none", doc="how weights become shares"
    )
    activation: str = attribute(ACTIVATION, "linear", doc="the function that is applied")

    def forward(self, x: Array, *others: Array) -> Array:
        maps = [x, *(_with_channels(self._in_size_of(other, x), x.shape[1]) for other in others)]
        if self.weights_type != "none":
            size = x.shape[1] if self.weights_type == "per_channel" else 1
            shares = self._shares(self.blob(0, (len(maps), size)))
            maps = [m * shares[i].reshape(1, -1, *(1,) * (len(x.shape) - 2)) for i, m in enumerate(maps)]
        y = maps[0]
        for other in maps[1:]:
            y = y + other
        return ACTIVATIONS[self.activation](y)

    def _in_size_of(self, other: Array, x: Array) -> Array:
        """Return a map in the size of x (pjreddie/darknet src/blas.c shortcut_cpu)."""
        (size, target), rank = (tuple(m.shape[2:]) for m in (other, x)), len(x.shape)
        if size == target and rank == len(other.shape):
            return other
        step = size[0] // target[0] if self.dialect != "alexeyab" and rank == len(other.shape) == 4 else 0
        rule = f"adds maps of {_planes(x, other)}; a map n times as large can be added"
        need(step > 0 and size == tuple(step * d for d in target), rule)
        return other[:, :, ::step, ::step]

    def _shares(self, weights: Array) -> Array:
        kind = self.weights_normalization
        need(kind != "none", f"weights_type={self.weights_type} needs weights_normalization, relu or softmax")
        softmax = kind == "softmax"
        parts = np.exp(weights - weights.max(axis=0, keepdims=True)) if softmax else np.maximum(weights, 0)
        return parts / (parts.sum(axis=0, keepdims=True) + np.float32(1e-4))


def _with_channels(x: Array, count: int) -> Array:
    """Return the first `count` channels of a map, with channels of zeros after them where it has fewer."""
    missing = count - x.shape[1]
    return x[:, :count] if missing <= 0 else np.pad(x, [(0, 0), (0, missing), *[(0, 0)] * (len(x.shape) - 2)])


@layer("scale_channels")
class ScaleChannels(DarknetLayer):
    """Multiply each channel of the section `from` with a number, or each pixel with `scale_wh`.

    The input (N, C, 1, 1), or (N, 1, H, W) with `scale_wh`, and a map (N, C, H, W), to (N, C, H, W).
    Source: AlexeyAB/darknet src/scale_channels_layer.c.
    """

    sources = ("from",)
    scale_wh: bool = attribute("bool", False, doc="whether there is a factor per pixel")
    activation: str = attribute(ACTIVATION, "linear", doc="the function that is applied")

    def forward(self, x: Array, other: Array) -> Array:
        n, c, h, w = other.shape
        need_shape(x, (n, 1, h, w) if self.scale_wh else (n, c, 1, 1), "input 0")
        return ACTIVATIONS[self.activation](x * other)


@layer("sam")
class Sam(DarknetLayer):
    """Multiply the section's input with the result of the section `from`, which has the same shape.

    Source: AlexeyAB/darknet src/sam_layer.c.
    """

    sources = ("from",)
    activation: str = attribute(ACTIVATION, "linear", doc="the function that is applied")

    def forward(self, x: Array, other: Array) -> Array:
        need_shape(other, tuple(x.shape), "input 1", about=", as input 0")
        return ACTIVATIONS[self.activation](x * other)
