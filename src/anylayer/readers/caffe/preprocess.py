"""What transform_param says about making an input of an image (Caffe's data_transformer.cpp)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anylayer.network import Preprocess
from anylayer.readers.caffe.tree import Block, shown


def preprocess(layer: Block, notes: list[str]) -> Preprocess | None:
    """The Preprocess of an input or data layer, or None where it has no transform_param."""
    transform = layer.block("transform_param")
    if transform is None:
        return None
    means = transform.numbers("mean_value")
    found = Preprocess(crop=transform.integer("crop_size"), source=transform.place())
    scales = transform.numbers("scale")
    found.scale = scales[0] if scales else 1.0
    gray = transform.entry("force_gray")
    found.gray = gray is not None and gray.value in (1, "t")
    found.mean_file = transform.text("mean_file")
    if means and found.mean_file:
        raise transform.fail("transform_param has either 'mean_file' or 'mean_value', got both")
    if means:
        found.mean = np.array(means, np.float32)
    return found
