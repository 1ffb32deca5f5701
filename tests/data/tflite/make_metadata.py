"""Make metadata.npz: examples/tflite/colors.tflite with other metadata, written by MediaPipe.

python make_metadata.py    (needs mediapipe; the file was made with 0.10.21)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from mediapipe.tasks.python.metadata.metadata_writers import image_classifier, metadata_writer

MODEL = Path(__file__).parents[3] / "examples" / "tflite" / "colors.tflite"


def main():
    labels = metadata_writer.Labels().add(["Rot", "Grün", "Blau"], "de", "klassen.txt")
    labels.add(["red", "green", "blue"], exported_filename="classes.txt")
    mean, deviation = [123.5, 116.0, 104.0], [58.0, 57.0, 64.0]
    writer = image_classifier.MetadataWriter.create(bytearray(MODEL.read_bytes()), mean, deviation, labels)
    stored = np.frombuffer(bytes(writer.populate()[0]), np.uint8)
    np.savez_compressed(Path(__file__).with_name("metadata.npz"), channels=stored)


if __name__ == "__main__":
    main()
