"""An IR with randomly changed values is read, or refused with an AnyLayerError."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from anylayer.api import Net
from anylayer.errors import AnyLayerError
from anylayer.readers.openvino import read

from .test_bad_files import V11, VALUES
from .test_spelling import ATTRIBUTES, LAYERS, B, W, one

_VALUE = re.compile(r'(?<==")[^"\n]*(?=")|(?<=<dim>)[^<]*(?=<)')
_VALUES = (
    "0", "-1", "1", "2", "7", "100000", "2147483647", "-2147483648", "9223372036854775807", "1e39", "nan", "inf",
    "0.5", "1,1", "0,0", "-1,-1", "", "f16", "i64", "boolean", "true", "0,0,0,0", "1,3,8,9", "9" * 400,
)  # fmt: skip


def changed(text: str, random: Random) -> str:
    """Return the text with one to three values replaced by extreme values or by other values of the text."""
    for _ in range(random.choice((1, 1, 2, 3))):
        found = list(_VALUE.finditer(text))
        place = random.choice(found)
        new = random.choice(_VALUES) if random.random() < 0.7 else random.choice(found)[0]
        text = text[: place.start()] + new + text[place.end() :]
    return text


def seeds(folder: Path) -> list[tuple[str, bytes]]:
    found = [(V11, VALUES.tobytes())]
    for type_, data, blobs, want in LAYERS.values():
        path = one(folder, type_, data, want.shape, blobs=blobs)
        found.append((path.read_text(), path.with_suffix(".bin").read_bytes()))
    for version in (2, 3):
        data = {**ATTRIBUTES[version], "output": 4}
        path = one(folder, "Convolution", data, (1, 4, 3, 3), blobs={"weights": W, "biases": B}, version=version)
        found.append((path.read_text(), path.with_suffix(".bin").read_bytes()))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_changed_values_never_crash(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    sources = seeds(tmp_path)
    path = tmp_path / "changed.xml"
    ends = {"ok": 0, "refused": 0}
    for _ in range(75):
        text, data = random.choice(sources)
        path.write_text(changed(text, random))
        path.with_suffix(".bin").write_bytes(data)
        try:
            str(Net(read(path), {}).inspect())
            ends["ok"] += 1
        except AnyLayerError as error:
            assert str(error).startswith(str(path))
            ends["refused"] += 1
    assert min(ends.values()) > 5


def test_unchanged_files_are_read(tmp_path: Path) -> None:
    for text, data in seeds(tmp_path):
        path = tmp_path / "seed.xml"
        path.write_text(text)
        path.with_suffix(".bin").write_bytes(data)
        assert read(path).nodes
