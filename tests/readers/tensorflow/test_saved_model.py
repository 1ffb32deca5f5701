"""SavedModels: signatures, variables, and damaged files."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, FileError, NetworkError
from anylayer.readers import tensorflow
from anylayer.readers.tensorflow.bundle import Bundle
from anylayer.testing import assert_same
from tests.engine_names import ALL
from tests.hostile import mutations
from tests.readers.tensorflow.files import field, graph, node, placeholder

DATA = Path(__file__).parents[2] / "data" / "tensorflow"
ENGINES = ALL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "saved_model", tmp_path / "saved_model"))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["", "saved_model.pb"])
def test_model_matches_tensorflow(engine: str, name: str, folder: Path) -> None:
    assert tensorflow.match(folder / name)
    net = anylayer.read(folder / name)
    assert list(net.inputs) == ["picture"]
    assert net.network.open == {"picture": (None, 8, 8, 3)}
    assert net.network.notes == ["signature 'serving_default' is read; the model has: serve, serving_default"]
    with np.load(DATA / "saved_model.npz") as want:
        got = net.compile(engine)({"picture": want["picture"]})
        assert sorted(got) == ["features", "prob"]
        for key, value in got.items():
            assert_same(value, want[key], key)


def test_variables_are_found_by_key() -> None:
    bundle = Bundle(DATA / "saved_model" / "variables" / "variables")
    keys = [f"_all_variables/{i}/.ATTRIBUTES/VARIABLE_VALUE" for i in range(7)]
    assert all(key in bundle for key in keys)
    assert {bundle.array(k).shape for k in keys} == {(3, 3, 3, 4), (4,), (4, 3), (3,)}


def test_missing_variables_are_named(folder: Path) -> None:
    (folder / "variables" / "variables.data-00000-of-00001").unlink()
    with pytest.raises(FileError, match=r"the tensor is in variables\.data-00000-of-00001, which is missing"):
        anylayer.read(folder)
    (folder / "variables" / "variables.index").unlink()
    with pytest.raises(FileError, match=r"the file variables\.index with its variables is missing"):
        anylayer.read(folder)


@pytest.mark.parametrize("name", ["variables.data-00000-of-00001", "variables.index"])
def test_link_out_of_the_folder_is_refused(name: str, folder: Path) -> None:
    inside = folder / "variables" / name
    inside.rename(folder.parent / "outside")
    inside.symlink_to(folder.parent / "outside")
    with pytest.raises(FileError, match=rf"{name}.* is a link that leads out of the model's folder"):
        anylayer.read(folder)


def test_links_into_the_models_folder_are_followed(folder: Path) -> None:
    """A cache may hold a model and its weights as links into one folder."""
    cache = folder.parent / "cache"
    cache.mkdir()
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        path.rename(cache / path.name)
        path.symlink_to(cache / path.name)
    assert list(anylayer.read(folder).inputs) == ["picture"]


def test_truncated_variables_are_refused(folder: Path) -> None:
    path = folder / "variables" / "variables.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(FileError, match=r"the tensor is at bytes \d+ to \d+, but its shard has 300"):
        anylayer.read(folder)
    index = folder / "variables" / "variables.index"
    index.write_bytes(index.read_bytes()[:-1])
    with pytest.raises(FileError, match="this is not a table of variables: its last 8 bytes differ"):
        anylayer.read(folder)


def test_compressed_blocks_are_refused(folder: Path) -> None:
    index = folder / "variables" / "variables.index"
    data = bytearray(index.read_bytes())
    data[-48 - 5] = 1  # the compression of the last block, which is the index
    index.write_bytes(bytes(data))
    with pytest.raises(FileError, match="its blocks are compressed, which is not supported"):
        anylayer.read(folder)


def test_model_without_signature_is_refused(tmp_path: Path) -> None:
    meta = field(1, field(4, "serve")) + field(2, graph(placeholder("x", 1, 2), node("y", "Relu", "x")))
    (tmp_path / "saved_model.pb").write_bytes(field(1, 1) + field(2, meta))
    with pytest.raises(NetworkError, match=r"saved_model\.pb: the model has no signature to name its inputs"):
        anylayer.read(tmp_path)


def test_graph_with_variables_is_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.pb").write_bytes(graph(node("v", "VarHandleOp"), node("y", "ReadVariableOp", "v")))
    with pytest.raises(NetworkError, match=r"1 variables have no values: 'v' \(VarHandleOp\)\. Freeze the graph"):
        anylayer.read(tmp_path / "graph.pb")


@pytest.mark.parametrize("name", ["saved_model.pb", "variables/variables.index"])
def test_changed_files_never_crash(name: str, folder: Path) -> None:
    random, path = Random(name), folder / name
    source = path.read_bytes()
    for _ in range(60):
        path.write_bytes(mutations.data(source, random))
        try:
            str(anylayer.read(folder).inspect())
        except AnyLayerError as error:
            assert "saved_model" in str(error)
