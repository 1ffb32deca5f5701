"""Make saved_model/, a small network as a SavedModel, and its results in saved_model.npz.

python make_saved_model.py (needs tensorflow-cpu; the folder here was made with 2.21)
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

HERE = Path(__file__).parent


def main():
    keras.utils.set_random_seed(0)
    x = keras.Input((8, 8, 3), name="picture")
    y = keras.layers.Conv2D(4, 3, strides=2, padding="same", use_bias=False)(x)
    y = keras.layers.BatchNormalization()(y)
    y = keras.layers.ReLU()(y)
    y = keras.layers.GlobalAveragePooling2D()(y)
    model = keras.Model(x, {"prob": keras.layers.Dense(3, activation="softmax")(y), "features": y})
    folder = HERE / "saved_model"
    shutil.rmtree(folder, ignore_errors=True)
    model.export(folder)
    for extra in ("fingerprint.pb", "assets"):
        path = folder / extra
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    given = np.random.default_rng(0).standard_normal((1, 8, 8, 3)).astype(np.float32)
    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    outputs = {k: v.numpy() for k, v in served(picture=tf.constant(given)).items()}
    np.savez_compressed(HERE / "saved_model.npz", picture=given, **outputs)


main()
