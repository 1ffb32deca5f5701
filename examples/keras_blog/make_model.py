"""Make model.keras and golden.npz with Keras: a small network with random weights and statistics, a picture, and
Keras' result for it. This needs keras and tensorflow; the files that it made are in this folder.

    python make_model.py
"""

from pathlib import Path

import keras
import numpy as np
from keras import layers

HERE = Path(__file__).parent
H = W = 32


def network() -> keras.Model:
    """Return two convolutions with batch normalisation, leaky ReLU and pooling; the last pooling is padded on one
    side.
    """
    picture = x = layers.Input((H, W, 3))
    x = layers.Conv2D(8, (3, 3), strides=(1, 1), padding="same", use_bias=False, name="conv1")(x)
    x = layers.BatchNormalization(name="bn1")(x)
    x = layers.LeakyReLU(negative_slope=0.1)(x)
    x = layers.MaxPooling2D(pool_size=(2, 2), strides=(2, 2))(x)
    x = layers.Conv2D(16, (3, 3), strides=(1, 1), padding="same", use_bias=True, name="conv2")(x)
    x = layers.BatchNormalization(name="bn2")(x)
    x = layers.LeakyReLU(negative_slope=0.1)(x)
    x = layers.MaxPooling2D(pool_size=(2, 2), strides=(1, 1), padding="same")(x)
    return keras.Model(picture, x)


def main() -> None:
    """Write both files."""
    random = np.random.default_rng(0)
    model = network()
    for layer in model.layers:
        weights = [random.normal(0, 0.3, w.shape) for w in layer.get_weights()]
        if isinstance(layer, layers.BatchNormalization):
            weights[0], weights[3] = random.uniform(0.5, 1.5, (2, len(weights[0])))
        layer.set_weights(weights)
    x = random.normal(size=(1, H, W, 3)).astype(np.float32)
    model.save(HERE / "model.keras")
    np.savez(HERE / "golden.npz", x=x, y=model.predict(x, verbose=0))


if __name__ == "__main__":
    main()
