"""Layers that change nothing once a network is trained."""

from __future__ import annotations

from typing import Any

from anylayer.layer import layer, need
from anylayer.layers.keras._base import KerasLayer


class Unchanged(KerasLayer):
    """The input as it is."""

    masks = "passes"
    called_with = frozenset({"mask"})

    def _harmless(self, name: str) -> bool:
        return True

    def forward(self, x: Any, mask: Any = None) -> Any:
        """(N, ...) to the same."""
        for index, blob in enumerate(self._blobs):
            self.blob(index, blob.shape, what="state of random numbers")
        return x


@layer("Layer")
class Base(KerasLayer):
    """Keras 2's base class of layers itself: the input as it is. (That of Keras 3 cannot be called.)"""

    masks = "passes"
    called_with = frozenset({"mask"})

    def forward(self, x: Any, mask: Any = None) -> Any:
        """(N, ...) to the same."""
        need(
            not self._blobs,
            f"is of type Layer, Keras' base class, but has {len(self._blobs)} weights: it is a class of its own. "
            "Give a class for it",
        )
        return x


_WHATS = {
    "Identity": "The input as it is",
    "Dropout": "Values left out at random while training",
    "SpatialDropout1D": "Channels left out at random while training",
    "SpatialDropout2D": "Channels left out at random while training",
    "SpatialDropout3D": "Channels left out at random while training",
    "AlphaDropout": "Values replaced at random while training",
    "GaussianDropout": "Values multiplied by noise while training",
    "GaussianNoise": "Values with noise while training",
    "ActivityRegularization": "A cost of large values while training",
    "RandomFlip": "Pictures turned over at random while training",
    "RandomRotation": "Pictures turned at random while training",
    "RandomZoom": "Pictures zoomed at random while training",
    "RandomTranslation": "Pictures moved at random while training",
    "RandomContrast": "Contrast changed at random while training",
    "RandomBrightness": "Brightness changed at random while training",
    "RandomShear": "Pictures sheared at random while training",
    "RandomColorJitter": "Colours changed at random while training",
    "RandomHue": "Hue changed at random while training",
    "RandomSaturation": "Saturation changed at random while training",
    "RandomSharpness": "Sharpness changed at random while training",
    "RandomGrayscale": "Colours taken away at random while training",
    "RandomErasing": "Parts of pictures erased at random while training",
    "RandomPerspective": "Perspective changed at random while training",
    "RandomGaussianBlur": "Pictures blurred at random while training",
    "RandomElasticTransform": "Pictures bent at random while training",
    "MixUp": "Pictures mixed while training",
    "CutMix": "Parts of pictures exchanged while training",
}

for _name, _what in _WHATS.items():
    layer(_name)(type(_name, (Unchanged,), {"__doc__": f"{_what}; here the input.", "__module__": __name__}))
