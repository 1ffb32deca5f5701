"""The Caffe reader: prototxt and caffemodel of any age and fork, to a Network."""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import need
from anylayer.layer import Registry
from anylayer.network import Network
from anylayer.readers.caffe.build import Options, build
from anylayer.readers.caffe.rules import network_state
from anylayer.readers.caffe.text import read_text
from anylayer.readers.caffe.upgrade import upgrade
from anylayer.readers.caffe.wire import read_weights


def match(path: Path) -> bool:
    """Whether the file looks like Caffe's."""
    return Path(path).name.endswith((".prototxt", ".caffemodel", ".caffemodel.h5"))


def read(
    model: Path,
    weights: Path | None = None,
    *,
    dialect: str | None = None,
    proto: Path | None = None,
    phase: str = "TEST",
    level: int = 0,
    stages: tuple[str, ...] = (),
    user_types: frozenset[str] = frozenset(),
) -> Network:
    """Read a network and its weights.

    Raises FileError, NetworkError, LayerError, each naming the file and, where there is one, the line.
    """
    net = read_text(Path(model))
    old = "layers" in net
    net = upgrade(net, Registry.of("caffe").types() if old else ())
    need(net.all("layer"), f"{model}: there is no layer in it")
    state = network_state(net, phase, level, tuple(stages))
    stored = read_weights(Path(weights)) if weights is not None else []
    return build(
        net, list(stored), str(weights) if weights is not None else "", Options(state, dialect, user_types)
    )
