"""Make colors.tflite, a classifier of colors with metadata: labels, and the normalization of images.

python make_model.py net         (needs tensorflow; the file was made with 2.21.0)
python make_model.py metadata    (needs mediapipe; the file was made with 0.10.21)
"""

from __future__ import annotations

import sys
from pathlib import Path

PATH = Path(__file__).with_name("colors.tflite")


def write_net():
    """Write a network that compares the mean of each channel."""
    import numpy as np
    import tensorflow as tf

    image = tf.keras.Input(batch_shape=(1, 8, 8, 3), name="image")
    means = tf.keras.layers.GlobalAveragePooling2D()(image)
    score = tf.keras.layers.Dense(3, activation="softmax", name="score")
    model = tf.keras.Model(image, score(means))
    score.set_weights([5 * np.eye(3, dtype=np.float32), np.zeros(3, np.float32)])
    PATH.write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())


def write_metadata():
    """Add the metadata of an image classifier."""
    from mediapipe.tasks.python.metadata.metadata_writers import image_classifier, metadata_writer

    labels = metadata_writer.Labels().add(["red", "green", "blue"])
    writer = image_classifier.MetadataWriter.create(bytearray(PATH.read_bytes()), [127.5], [127.5], labels)
    PATH.write_bytes(writer.populate()[0])


if __name__ == "__main__":
    {"net": write_net, "metadata": write_metadata}[sys.argv[1]]()
