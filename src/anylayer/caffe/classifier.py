"""Classifier: a network for images, with its preprocessing (BVLC/caffe python/caffe/classifier.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.caffe import io
from anylayer.caffe.net import TEST, Net
from anylayer.network import Array


def transformer_of(
    net: Net,
    mean: Array | None,
    input_scale: float | None,
    raw_scale: float | None,
    channel_swap: Sequence[int] | None,
) -> io.Transformer:
    """Return the preprocessing of images (H, W, K) to a network's first input."""
    in_ = net.inputs[0]
    transformer = io.Transformer({in_: net.blobs[in_].shape})
    transformer.set_transpose(in_, (2, 0, 1))
    steps = {"mean": mean, "input_scale": input_scale, "raw_scale": raw_scale, "channel_swap": channel_swap}
    for step, value in steps.items():
        if value is not None:
            getattr(transformer, f"set_{step}")(in_, value)
    return transformer


class Classifier(Net):
    """A network that classifies images.

    image_dims: the size (height, width) to which images are resized before they are cropped to the input; by
    default the input's. mean, input_scale, raw_scale, channel_swap: the preprocessing, see io.Transformer.
    options: those of Net.
    """

    def __init__(
        self,
        model_file: str | Path,
        pretrained_file: str | Path,
        image_dims: Sequence[int] | None = None,
        mean: Array | None = None,
        input_scale: float | None = None,
        raw_scale: float | None = None,
        channel_swap: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model_file, pretrained_file, TEST, **options)
        self.transformer = transformer_of(self, mean, input_scale, raw_scale, channel_swap)
        self.crop_dims = np.array(self.blobs[self.inputs[0]].shape[2:])
        self.image_dims = np.array(self.crop_dims if image_dims is None else image_dims)

    def predict(self, inputs: Sequence[Array], oversample: bool = True) -> Array:
        """Return the first output for each image (H, W, K), (N, C).

        With `oversample` it is the mean over ten crops of each image, otherwise that of the crop at the center.
        """
        images = [io.resize_image(image, self.image_dims) for image in inputs]
        if oversample:
            crops = io.oversample(images, self.crop_dims)
        else:
            y, x = (int(d) for d in self.image_dims / 2 - self.crop_dims / 2)
            height, width = self.crop_dims
            crops = np.array([image[y : y + height, x : x + width] for image in images])
        in_ = self.inputs[0]
        blobs: dict[str, Any] = {in_: np.array([self.transformer.preprocess(in_, crop) for crop in crops])}
        scores = self.forward_all(**blobs)[self.outputs[0]]
        return scores.reshape(len(images), 10, -1).mean(1) if oversample else scores
