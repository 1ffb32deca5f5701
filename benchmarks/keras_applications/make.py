"""Save networks of keras.applications with random weights, each with an input and Keras' output.

Run with a Python that has tensorflow-cpu: python make.py FOLDER [NAME ...]. Each network gives NAME.keras, NAME.h5
and NAME.npz (x, y). Statistics of batch normalisation are random too, so that a comparison is meaningful. There is
no softmax at the end, because it would hide differences.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

NETWORKS = {
    "mobilenet": ("MobileNet", 224),
    "mobilenet_v2": ("MobileNetV2", 224),
    "mobilenet_v3_small": ("MobileNetV3Small", 224),
    "mobilenet_v3_large": ("MobileNetV3Large", 224),
    "resnet50": ("ResNet50", 224),
    "inception_v3": ("InceptionV3", 299),
    "efficientnet_b0": ("EfficientNetB0", 224),
    "densenet121": ("DenseNet121", 224),
    "nasnet_mobile": ("NASNetMobile", 224),
}


def randomise(model: keras.Model, seed: int) -> None:
    """Set weights that keep values near 1 through the network, and statistics that differ from 0 and 1."""
    noise = np.random.default_rng(seed)
    for layer in model.layers:
        values = layer.get_weights()
        if isinstance(layer, keras.layers.BatchNormalization):
            c = values[-1].shape
            new = [noise.uniform(0.7, 1.3, c)] * layer.scale + [noise.normal(0, 0.1, c)] * layer.center
            values = [*new, noise.normal(0, 0.1, c), noise.uniform(0.5, 1.5, c)]
        elif values:
            values = [v + noise.normal(0, 0.02, v.shape) if v.ndim == 1 else v for v in values]
        layer.set_weights([np.asarray(v, np.float32) for v in values])


def main(folder: Path, names: list[str]) -> None:
    """Make the networks that have no files yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        kind, size = NETWORKS[name]
        if (folder / f"{name}.npz").exists():
            continue
        keras.utils.set_random_seed(0)
        model = getattr(keras.applications, kind)(
            weights=None, input_shape=(size, size, 3), classifier_activation=None
        )
        randomise(model, 1)
        x = np.random.default_rng(2).uniform(-1, 1, (1, size, size, 3)).astype(np.float32)
        y = model.predict(x, verbose=0)
        model.save(folder / f"{name}.keras")
        model.save(folder / f"{name}.h5")
        np.savez(folder / f"{name}.npz", x=x, y=y)
        print(name, model.count_params(), float(y.max()), float(y.std()), flush=True)
        keras.backend.clear_session()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or list(NETWORKS))
