"""Detector: a network that classifies windows of images (R-CNN; BVLC/caffe python/caffe/detector.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from anylayer.caffe import io
from anylayer.caffe.classifier import transformer_of
from anylayer.caffe.net import TEST, Net
from anylayer.errors import InputError, need
from anylayer.network import Array


class Detector(Net):
    """A network that classifies windows of images.

    mean, input_scale, raw_scale, channel_swap: the preprocessing, see io.Transformer. context_pad: pixels of the
    image around a window, in the network's input. options: those of Net.
    """

    def __init__(
        self,
        model_file: str | Path,
        pretrained_file: str | Path,
        mean: Array | None = None,
        input_scale: float | None = None,
        raw_scale: float | None = None,
        channel_swap: Sequence[int] | None = None,
        context_pad: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model_file, pretrained_file, TEST, **options)
        self.transformer = transformer_of(self, mean, input_scale, raw_scale, channel_swap)
        self.configure_crop(context_pad)

    def configure_crop(self, context_pad: int | None) -> None:
        """Set the pixels of context around a window. Where the context leaves the image, it is the mean."""
        in_ = self.inputs[0]
        channels, height, width = self.blobs[in_].shape[1:]
        self.crop_dims = np.array((height, width, channels))
        pad = context_pad or 0
        need(
            2 * pad < width,
            f"context_pad must be less than half of the input's width {width}, got {pad}",
            InputError,
        )
        self.context_pad = pad
        mean = np.zeros((channels, 1, 1), np.float32)
        if in_ in self.transformer.mean:
            mean = np.broadcast_to(self.transformer.mean[in_], (channels, height, width)).astype(np.float32)
        if in_ in self.transformer.channel_swap:
            mean = mean[np.argsort(self.transformer.channel_swap[in_])]
        self.crop_mean = mean.transpose(1, 2, 0) / np.float32(self.transformer.raw_scale.get(in_, 1))

    def detect_windows(self, images_windows: Iterable[tuple[str | Path, Iterable[Sequence[int]]]]) -> list[Any]:
        """Classify windows [ymin, xmin, ymax, xmax] of image files.

        Return one dict per window, with the keys "window", "prediction" (the first output) and "filename".
        """
        windows_of_images: list[dict[str, Any]] = []
        crops: list[Array] = []
        in_ = self.inputs[0]
        for filename, windows in images_windows:
            image = io.load_image(filename)
            for window in windows:
                crops.append(self.transformer.preprocess(in_, self.crop(image, np.asarray(window))))
                windows_of_images.append({"window": window, "filename": filename})
        if not windows_of_images:
            return []
        inputs: dict[str, Any] = {in_: np.array(crops)}
        predictions = self.forward_all(**inputs)[self.outputs[0]]
        return [{**one, "prediction": prediction} for one, prediction in zip(windows_of_images, predictions)]

    def detect_selective_search(self, image_fnames: Iterable[str]) -> NoReturn:
        """Raise InputError: the windows of selective search come from a MATLAB program."""
        raise InputError(
            "selective search needs MATLAB; compute windows with cv2.ximgproc.segmentation and call detect_windows"
        )

    def crop(self, im: Array, window: Array) -> Array:
        """Return a window of an image with context_pad pixels around it, in the size of the network's input."""
        if not self.context_pad:
            return im[window[0] : window[2], window[1] : window[3]]
        side = int(self.crop_dims[1])
        half = (np.array(window[2:]) - window[:2] + 1) / 2
        reach = half * (side / (side - 2 * self.context_pad))
        box = np.round(np.concatenate([window[:2] + half - reach, window[:2] + half + reach]))
        scale = side / (box[2:] - box[:2] + 1)
        pad = [round(p) for p in np.maximum(0, -box[:2]) * scale]
        box = np.clip(box, 0, [*im.shape[:2], *im.shape[:2]])
        inside = box[2:] - box[:2] + 1
        size = [min(round(n), side - p) for n, p in zip(inside * scale, pad)]
        top, left, bottom, right = (int(b) for b in box)
        need(
            bottom > top and right > left and min(size) > 0,
            f"window {list(window)} is outside of the image of {im.shape[0]} x {im.shape[1]} pixels",
            InputError,
        )
        crop: Array = np.ones(self.crop_dims, np.float32) * self.crop_mean
        crop[pad[0] : pad[0] + size[0], pad[1] : pad[1] + size[1]] = io.resize_image(
            im[top:bottom, left:right], size
        )
        return crop
