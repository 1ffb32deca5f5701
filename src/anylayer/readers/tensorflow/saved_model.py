"""SavedModel: a folder with a graph, what it calls its inputs and outputs, and the values of its variables.
A checkpoint of TensorFlow 1 is a graph (.meta) and the values of its variables, and says nothing of outputs.

Which value belongs to which variable the graph tells itself: its restore operations assign each its own
(python/training/saver.py, python/checkpoint/functional_saver.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from anylayer.errors import FileError, NetworkError, need
from anylayer.network import Array
from anylayer.readers.tensorflow.build import Graph, by_name, ends
from anylayer.readers.tensorflow.bundle import Bundle
from anylayer.readers.tensorflow.functions import Inliner, library, reference, spelled
from anylayer.readers.tensorflow.graph import GraphNode, Tensor, nodes_of
from anylayer.readers.tensorflow.messages import Record, pairs
from anylayer.readers.tensorflow.structure import ASSIGNS, CONSTANT, PASSES, RESTORE, VARIABLES

_SIGNATURE = "serving_default"
_HIDDEN = "__saved_model"
_MOST_NAMES = 1 << 20


def graph_of(record: Record, folder: Path, file: str) -> Graph:
    """The graph that serves, its variables filled."""
    meta = _meta(record)
    notes: list[str] = []
    inputs, outputs = _signature(meta, notes)
    definition = meta.record("graph_def")
    inliner = Inliner(library(definition.record("library")), file)
    nodes = by_name(inliner.graph(nodes_of(definition.all("node"), file)))
    values = _variables(nodes, folder / "variables" / "variables", Path(file))
    return Graph(
        file,
        nodes,
        inputs={public: spelled(*reference(name)) for public, name in inputs.items() if public not in nodes},
        outputs={public: inliner.resolved(name) for public, name in outputs.items()},
        values=values,
        weights=str(folder / "variables"),
        notes=notes,
    )


def _meta(record: Record) -> Record:
    """The graph with the tag "serve", else the first."""
    metas: list[Record] = record.all("meta_graphs")
    need(metas, "there is no graph in it", FileError)
    serving = [m for m in metas if "serve" in m.record("meta_info_def").all("tags")]
    return (serving or metas)[0]


def _signature(meta: Record, notes: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The names of inputs and outputs, and the values they are."""
    found = {name: s for name, s in pairs(meta.all("signature_def")) if not name.startswith(_HIDDEN)}
    need(
        found,
        "it has no signature, which would tell its inputs and outputs: save it with signatures=..., or freeze it",
        NetworkError,
    )
    name = _SIGNATURE if _SIGNATURE in found else sorted(found)[0]
    if len(found) > 1:
        notes.append(f"signature '{name}' is read; there are: {', '.join(sorted(found))}")
    chosen = found[name]
    inputs, outputs = (
        {key: info.last("name", "") for key, info in pairs(chosen.all(side))} for side in ("inputs", "outputs")
    )
    return inputs, dict(sorted(outputs.items()))


def checkpoint_of(meta: Record, prefix: Path, file: str, user_types: frozenset[str]) -> Graph:
    """The graph of a MetaGraphDef, its variables filled from the tensors below `prefix`. Its outputs are those of
    operations nobody reads, without what serves saving and restoring."""
    definition = meta.record("graph_def")
    functions = library(definition.record("library"))
    nodes = nodes_of(definition.all("node"), file)
    need(nodes, "there is no graph in it", FileError)
    scope = meta.record("saver_def").last("restore_op_name", "").rpartition("/")[0]
    outputs = [o for o in ends(nodes, functions, user_types) if not (scope and o.startswith(f"{scope}/"))]
    inliner = Inliner(functions, file)
    flat = by_name(inliner.graph(nodes))
    return Graph(
        file,
        flat,
        outputs={o: inliner.resolved(o) for o in outputs},
        values=_variables(flat, prefix, Path(file)),
        weights=f"{prefix}.index",
    )


def _variables(nodes: Mapping[str, GraphNode], prefix: Path, model: Path) -> dict[str, Array]:
    """The values of the variables, by the name of their operation."""
    keys = dict(_restored(nodes, nodes.values()))
    if not keys:
        return {}
    bundle = Bundle(prefix, model)
    return {name: bundle.array(key) for name, key in keys.items() if key in bundle}


def _restored(nodes: Mapping[str, GraphNode], among: Iterable[GraphNode]) -> Iterable[tuple[str, str]]:
    """A variable and the key of what is restored to it, for each assignment of that kind."""
    for node in among:
        if node.op not in ASSIGNS or len(node.inputs) < 2:
            continue
        variable, _ = _source(nodes, node.inputs[0])
        value, index = _source(nodes, node.inputs[1])
        if variable is None or value is None or variable.op not in VARIABLES or value.op != RESTORE:
            continue
        need(
            len(value.inputs) >= 3,
            f"'{value.name}' ({RESTORE}) takes 3 inputs, got {len(value.inputs)}",
            NetworkError,
        )
        names, slices = (_texts(nodes, text) for text in value.inputs[1:3])
        if index < len(names):
            need(
                index >= len(slices) or not slices[index],
                f"variable '{variable.name}' is restored from a slice, which is not read",
                NetworkError,
            )
            yield variable.name, names[index]


def _source(nodes: Mapping[str, GraphNode], text: str) -> tuple[GraphNode | None, int]:
    """The operation an input comes from, and which of its outputs it is."""
    for _ in range(len(nodes)):
        name, index = reference(text)
        node = nodes.get(name)
        if node is None or node.op not in PASSES or not node.inputs:
            return node, index
        text = node.inputs[0]
    return None, 0


def _texts(nodes: Mapping[str, GraphNode], text: str) -> list[str]:
    """The strings of a constant."""
    node, _ = _source(nodes, text)
    value = node.attrs.get("value") if node is not None and node.op == CONSTANT else None
    if not isinstance(value, Tensor):
        return []
    found = value.record.all("string_val")
    need(len(found) <= _MOST_NAMES, f"{len(found)} names of variables, {_MOST_NAMES} are the most", FileError)
    return [v.decode("utf-8", "backslashreplace") for v in found]
