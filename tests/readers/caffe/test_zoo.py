"""Real files: 39 published prototxts, trained models, and files that real Caffe has written."""

from __future__ import annotations

import contextlib
import json
import random
import time
from pathlib import Path

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

from anylayer.errors import AnyLayerError, NetworkError
from anylayer.network import Network
from anylayer.readers.caffe import read
from tests.readers.files import node

pytestmark = needs_data("golden", "models", "prototxt")

ZOO = [
    line.split(" | ")
    for line in Path(__file__).with_name("zoo.txt").read_text().splitlines()
    if not line.startswith("#")
]
CASES = sorted(p.parent for p in REFERENCE.glob("golden/*/*/case.json"))


def test_zoo_table_is_complete() -> None:
    assert [row[0] for row in ZOO] == sorted(p.name for p in (REFERENCE / "prototxt").iterdir())


@pytest.mark.parametrize(("file", "nodes", "shape", "outputs"), ZOO, ids=[row[0] for row in ZOO])
def test_prototxts_from_the_wild(file: str, nodes: str, shape: str, outputs: str) -> None:
    network = read(REFERENCE / "prototxt" / file)
    assert len(network.nodes) == int(nodes)
    first = next(iter(network.inputs.values()))
    assert first is not None
    assert first.shape == tuple(map(int, shape.split()))
    assert list(network.outputs) == outputs.split()
    produced = set(network.inputs)
    for each in network.nodes:
        assert produced.issuperset(each.inputs), each.name
        assert produced.isdisjoint(each.outputs), each.name
        produced.update(each.outputs)
        assert each.place.startswith(f"{REFERENCE / 'prototxt' / file}:"), each.name
    assert produced.issuperset(network.outputs.values())
    assert len({n.name for n in network.nodes}) == len(network.nodes)


MODELS = {
    "hed": (52, 0),
    "lenet": (8, 8),
    "mobilenet_ssd": (189, 234),
    "mtcnn_det1": (10, 13),
    "mtcnn_det2": (13, 16),
    "shufflenet_v1_g3": (217, 296),
    "squeezenet_v1.1": (66, 52),
    "ultraface_RFB-320": (110, 104),
}


@pytest.mark.parametrize("model", MODELS)
def test_models_have_the_expected_nodes_and_outputs(model: str) -> None:
    folder = REFERENCE / "models" / model
    weights = folder / "weights.caffemodel"
    network = read(folder / "deploy.prototxt", weights if weights.exists() else None)
    assert (len(network.nodes), sum(len(n.blobs) for n in network.nodes)) == MODELS[model]
    for file in folder.rglob("output_*.npy"):
        assert file.stem.removeprefix("output_") in network.outputs


def flat(params: object, path: str = "") -> dict[str, object]:
    if isinstance(params, dict):
        return {k: v for name, value in params.items() for k, v in flat(value, f"{path}.{name}").items()}
    return {
        path: [np.float32(v) if isinstance(v, float) else v for v in params]
        if isinstance(params, list)
        else params
    }


@pytest.mark.parametrize(
    "model", ["lenet", "squeezenet_v1.1", "mobilenet_ssd", "shufflenet_v1_g3", "ultraface_RFB-320"]
)
def test_caffemodel_has_the_same_network_as_its_prototxt(model: str) -> None:
    folder = REFERENCE / "models" / model
    alone = read(folder / "weights.caffemodel")
    whole = read(folder / "deploy.prototxt", folder / "weights.caffemodel")
    assert [(n.name, n.type, n.inputs, n.outputs) for n in alone.nodes] == [
        (n.name, n.type, n.inputs, n.outputs) for n in whole.nodes
    ]
    assert list(alone.outputs) == list(whole.outputs)
    assert [t.shape for t in alone.inputs.values() if t] == [t.shape for t in whole.inputs.values() if t]
    for a, b in zip(alone.nodes, whole.nodes):
        assert [x.tobytes() for x in a.blobs] == [x.tobytes() for x in b.blobs], a.name
        if a.type == "Convolution":
            ours, theirs = flat(a.params), flat(b.params)
            assert ours[".convolution_param.num_output"] == theirs[".convolution_param.num_output"]


def test_training_snapshot_without_prototxt() -> None:
    file = REFERENCE / "models" / "mtcnn_det2" / "weights.caffemodel"
    with pytest.raises(NetworkError, match=r"leave out at phase TEST, level 0$"):
        read(file)
    network = read(file, phase="TRAIN")
    assert list(network.outputs) == ["conv5-1", "conv5-2", "conv5-3"]
    assert list(network.inputs) == ["data24"]


# ---- files that real Caffe has written


def golden(name: str) -> Network:
    folder = REFERENCE / "golden" / name
    weights = folder / "weights.caffemodel"
    return read(folder / "deploy.prototxt", weights if weights.exists() else None)


@pytest.mark.parametrize("folder", CASES, ids=[f"{p.parent.name}-{p.name}" for p in CASES])
def test_inputs_and_outputs_match_caffe(folder: Path) -> None:
    case = json.loads((folder / "case.json").read_text())
    weights = folder / "weights.caffemodel"
    if folder.name == "unknown_bottom":
        with pytest.raises(NetworkError, match=r":3: layer 'l_y' \(ReLU\): bottom 'q' is produced by no layer$"):
            read(folder / "deploy.prototxt")
        return
    network = read(folder / "deploy.prototxt", weights if weights.exists() else None, dialect=case["dialect"])
    assert sorted(network.inputs) == sorted(case["inputs"])
    if not case.get("rejected"):
        assert list(network.outputs) == case["outputs"]


def test_v0_padding_is_folded() -> None:
    network = golden("Legacy/v0_layers_padding")
    assert node(network, "conv1").params["convolution_param"]["pad"] == 1
    assert node(network, "conv1").inputs == ["data"]
    assert [b.shape for b in node(network, "conv1").blobs] == [(4, 3, 3, 3), (4,)]


def test_duplicate_layer_names_get_numbers() -> None:
    assert [n.name for n in golden("NetRules/duplicate_layer_names").nodes] == ["d", "d_1"]


def test_stages_select_layers() -> None:
    assert [n.name for n in golden("NetRules/stage").nodes] == ["t1"]
    folder = REFERENCE / "golden" / "NetRules/stage"
    assert [n.name for n in read(folder / "deploy.prototxt", stages=("deploy",)).nodes] == ["t2"]


def test_all_weight_formats_have_the_same_values() -> None:
    forms = [
        "new_format",
        "double_data",
        "legacy_blob_dims",
        "packed_in_chunks",
        "unknown_fields",
        "v1_layers_model",
    ]
    want = [b.ravel() for n in golden("WeightsFile/new_format").nodes for b in n.blobs]
    assert [w.size for w in want] == [108, 4, 600, 5]
    for form in forms:
        got = [b for n in golden(f"WeightsFile/{form}").nodes for b in n.blobs]
        assert [b.ndim for b in got] == (
            [4] * 4 if form in ("legacy_blob_dims", "v1_layers_model") else [4, 1, 2, 1]
        )
        for g, w in zip(got, want):
            assert np.array_equal(g.ravel(), w), form


def test_last_of_two_shared_blobs_is_used() -> None:
    c1, c2 = golden("WeightsFile/shared_last_wins").nodes
    assert [np.shares_memory(a, b) for a, b in zip(c1.blobs, c2.blobs)] == [True, True]


# ---- damaged files


def harmless(model: Path, weights: Path | None) -> None:
    """Fail unless reading ends within 2 s, with a network or an AnyLayerError."""
    start = time.process_time()
    with contextlib.suppress(AnyLayerError):
        read(model, weights)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("seed", range(3))
def test_damaged_prototxts_never_crash(seed: int) -> None:
    rng = random.Random(seed)
    good = [(p / "deploy.prototxt").read_bytes() for p in CASES]
    pieces = [
        b"{",
        b"}",
        b":",
        b'"',
        b"'",
        b"-",
        b"[",
        b"]",
        b"layer",
        b"\xff",
        b"\n",
        b"type",
        b"top",
        b"1e9",
        b"#",
    ]
    for _ in range(150):
        text = bytearray(rng.choice(good))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text))
            text[at : at + rng.randint(0, 8)] = rng.choice([b"", *pieces])
        Path("deploy.prototxt").write_bytes(text)
        harmless(Path("deploy.prototxt"), None)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_caffemodels_never_crash(seed: int) -> None:
    rng = random.Random(seed)
    good = [p for p in CASES if (p / "weights.caffemodel").exists()]
    for _ in range(150):
        folder = rng.choice(good)
        data = bytearray((folder / "weights.caffemodel").read_bytes())
        for _ in range(rng.randint(1, 5)):
            data[rng.randrange(min(len(data), 400))] = rng.randrange(256)
        Path("net.caffemodel").write_bytes(data[: rng.choice([len(data), rng.randrange(1, len(data))])])
        harmless(folder / "deploy.prototxt", Path("net.caffemodel"))
        harmless(Path("net.caffemodel"), None)
