"""What comes out of the networks of the gallery, as a person reads it: text, or a picture in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from PIL import Image

Arrays = Mapping[str, NDArray[np.float32]]
_NAMES = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"]


def only(outputs: Arrays) -> NDArray[np.float32]:
    """Return the only output."""
    (value,) = outputs.values()
    return value


def map_picture(outputs: Arrays, file: Path, picture: Path) -> str:
    """Write the last output, a map of numbers from 0 to 1, as a picture, and return its name."""
    plane = [*outputs.values()][-1][0, 0]
    Image.fromarray(np.uint8(np.clip(plane, 0, 1) * 255 + 0.5)).save(picture)
    return picture.name


def text(outputs: Arrays, file: Path, picture: Path) -> str:
    """Return the characters that PP-OCR recognizes: the most probable ones, without blanks and repeats."""
    (listed,) = (p.value for p in onnx.load(file).metadata_props if p.key == "character")
    characters = ["", *listed.splitlines(), " "]
    best = only(outputs)[0].argmax(-1)
    return repr("".join(characters[c] for before, c in zip((0, *best), best) if c != before))


def file_type(outputs: Arrays, file: Path, picture: Path) -> str:
    """Return the type that magika gives the file, and its probability."""
    labels = json.loads((file.parent / "config.min.json").read_text())["target_labels_space"]
    scores = only(outputs)[0]
    return f"{labels[scores.argmax()]} {scores.max():.2f}"


def voice(outputs: Arrays, file: Path, picture: Path) -> str:
    """Return the probability of a voice in the last window."""
    return f"voice {next(iter(outputs.values())).ravel()[-1]:.2f}"


def pitches(outputs: Arrays, file: Path, picture: Path) -> str:
    """Return the notes that basic-pitch hears for a quarter of the time or longer. The first of its 88 is A0."""
    (notes,) = (x for name, x in outputs.items() if x.shape[-1] == 88 and name in ("note", _NOTE))
    heard = np.flatnonzero((notes[0] > 0.5).mean(axis=0) > 0.25) + 9
    return " ".join(f"{_NAMES[n % 12]}{n // 12}" for n in heard)


_NOTE = "StatefulPartitionedCall:1"
"""The name of the output in basic-pitch's ONNX file."""
