"""Read the pictures and arrays of --calibrate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anylayer.cli.inputs import Loader
from anylayer.cli.items import Item
from anylayer.convert.calibration import need_shapes
from anylayer.errors import InputError, at
from anylayer.graph.open_sizes import OpenSizes
from anylayer.network import Array


class Pictures(Sequence[dict[str, Array]]):
    """The sets of inputs that items describe. The files of a set are read when the set is.

    If the network takes several samples at once, each set has as many pictures, and the last one begins again with
    the first pictures. An item with arrays is a set of its own. With open `sizes`, each set is one picture.
    """

    def __init__(self, loader: Loader, items: Sequence[Item], sizes: OpenSizes | None = None) -> None:
        self.loader, self.items, self.sizes = loader, items, sizes
        samples = {kind.shape[0] for kind in loader.types.values() if kind is not None and kind.shape}
        alone = sizes is not None or len(samples) != 1 or loader.load(items[0]).image is None
        self.samples = 1 if alone else samples.pop()

    def __len__(self) -> int:
        return math.ceil(len(self.items) / self.samples)

    def __getitem__(self, index: int) -> dict[str, Array]:  # type: ignore[override]  # sets are taken one by one
        items = [self.items[(index * self.samples + i) % len(self.items)] for i in range(self.samples)]
        sets = [self.loader.load(item).arrays for item in items]
        arrays = {name: np.concatenate([one[name] for one in sets]) for name in sets[0]}
        with at(items[0].source):
            try:
                need_shapes(arrays, self.loader.types, self.sizes)
            except InputError as error:
                if self.sizes is not None:
                    error.message += ". To resize images, give --size WxH"
                raise
        return arrays
