"""Layers that do nothing at inference."""

from __future__ import annotations

from typing import Any

from anylayer.layer import layer, need
from anylayer.layers._table import define
from anylayer.layers.keras._base import KerasLayer
from anylayer.network import Array


class IdentityLayer(KerasLayer):
    """A layer that returns its input at inference."""

    masks = "passes"
    called_with = frozenset({"mask"})

    def _harmless(self, name: str) -> bool:
        return True

    def forward(self, x: Array, mask: Any = None) -> Array:
        for index, blob in enumerate(self._blobs):
            self.blob(index, blob.shape, what="state of random numbers")
        return x


@layer("Layer")
class Base(KerasLayer):
    """Return the input: the base class of Keras 2 itself.

    (N, ...) to the same shape. The base class of Keras 3 cannot be called. Source: keras.layers.Layer of Keras 2.
    """

    masks = "passes"
    called_with = frozenset({"mask"})

    def forward(self, x: Array, mask: Any = None) -> Array:
        need(
            not self._blobs,
            f"is of type Layer, the base class of Keras, but has {len(self._blobs)} weights, so it is a class of "
            "the user's own. Give a class for it",
        )
        return x


_TRAINING: dict[str, str] = {
    "Dropout": "sets random elements to 0",
    "SpatialDropout1D": "sets random channels to 0",
    "SpatialDropout2D": "sets random channels to 0",
    "SpatialDropout3D": "sets random channels to 0",
    "AlphaDropout": "replaces random elements",
    "GaussianDropout": "multiplies the elements by noise",
    "GaussianNoise": "adds noise to the elements",
    "ActivityRegularization": "adds a cost of large values",
    "RandomFlip": "flips images at random",
    "RandomRotation": "rotates images at random",
    "RandomZoom": "zooms images at random",
    "RandomTranslation": "translates images at random",
    "RandomContrast": "changes the contrast at random",
    "RandomBrightness": "changes the brightness at random",
    "RandomShear": "shears images at random",
    "RandomColorJitter": "changes colors at random",
    "RandomHue": "changes the hue at random",
    "RandomSaturation": "changes the saturation at random",
    "RandomSharpness": "changes the sharpness at random",
    "RandomGrayscale": "removes the colors at random",
    "RandomErasing": "erases random parts of images",
    "RandomPerspective": "changes the perspective at random",
    "RandomGaussianBlur": "blurs images at random",
    "RandomElasticTransform": "distorts images at random",
    "MixUp": "mixes images of a batch",
    "CutMix": "exchanges parts of images of a batch",
}
"""What each layer does while training."""


_SAME = "(N, ...) to the same shape. Source: keras.layers.{}."

define("Identity", IdentityLayer, "Return the input.", _SAME.format("Identity"))
for _name, _what in _TRAINING.items():
    define(_name, IdentityLayer, f"Return the input; while training, the layer {_what}.", _SAME.format(_name))
