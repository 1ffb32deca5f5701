"""SavedModels and checkpoints: graphs whose variables have their values in other files.

A SavedModel is a folder with a graph, the names of its inputs and outputs (signatures), and the variables' values.
A checkpoint of TensorFlow 1 is a graph (.meta) and the variables' values; it does not name outputs.

The graph itself states which value belongs to which variable: its restore operations assign them
(tensorflow/python/training/saver.py, tensorflow/python/checkpoint/functional_saver.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from anylayer.errors import FileError, NetworkError, need, plural
from anylayer.network import Array
from anylayer.readers._limits import MAX_RESTORED_NAMES
from anylayer.readers.tensorflow.build import InlinedGraph, unconsumed_outputs
from anylayer.readers.tensorflow.bundle import Bundle
from anylayer.readers.tensorflow.functions import (
    Inliner,
    by_name,
    declared_results,
    functions_of,
    without_identities,
    without_index_0,
)
from anylayer.readers.tensorflow.graph import GraphNode, StoredTensor, nodes_of
from anylayer.readers.tensorflow.messages import Record, map_entries
from anylayer.readers.tensorflow.structure import ASSIGNS, CONSTANT, RESTORE, VARIABLES

_SIGNATURE = "serving_default"
_INTERNAL = "__saved_model"
"""How the names of signatures begin that are not for users."""


def saved_model_graph(record: Record, folder: Path, file: str) -> InlinedGraph:
    """Return the graph of a SavedModel for inference, with the values of its variables."""
    meta = _meta(record)
    notes: list[str] = []
    inputs, outputs = _signature(meta, notes)
    definition = meta.record("graph_def")
    inliner = Inliner(functions_of(definition.record("library")), file, declared_results(meta))
    nodes = by_name(inliner.graph(nodes_of(definition.all("node"), file)))
    values = _variables(nodes, folder / "variables" / "variables", Path(file))
    return InlinedGraph(
        file,
        nodes,
        inputs={public: without_index_0(name) for public, name in inputs.items() if public not in nodes},
        outputs={public: inliner.resolve(name) for public, name in outputs.items()},
        values=values,
        weights=str(folder / "variables"),
        notes=notes,
        inliner=inliner,
    )


def _meta(record: Record) -> Record:
    """Return the graph with the tag "serve", or else the first graph."""
    metas: list[Record] = record.all("meta_graphs")
    need(metas, "the file has no graph", FileError)
    serving = [m for m in metas if "serve" in m.record("meta_info_def").all("tags")]
    return (serving or metas)[0]


def _signature(meta: Record, notes: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the inputs and outputs of the default signature, or else of the first one in alphabetical order.

    Each maps public names to values. A note names the signatures if there are several.
    """
    signatures = {name: s for name, s in map_entries(meta.all("signature_def")) if not name.startswith(_INTERNAL)}
    need(
        signatures,
        "the model has no signature to name its inputs and outputs. Save it with signatures=..., or freeze it",
        NetworkError,
    )
    name = _SIGNATURE if _SIGNATURE in signatures else sorted(signatures)[0]
    if len(signatures) > 1:
        notes.append(f"signature '{name}' is read; the model has: {', '.join(sorted(signatures))}")
    chosen = signatures[name]
    inputs, outputs = (
        {key: info.last("name", "") for key, info in map_entries(chosen.all(side))}
        for side in ("inputs", "outputs")
    )
    return inputs, dict(sorted(outputs.items()))


def checkpoint_graph(meta: Record, prefix: Path, file: str, user_types: frozenset[str]) -> InlinedGraph:
    """Return the graph of a checkpoint's MetaGraphDef, with the values of its variables.

    `prefix` is the path of the checkpoint's files without suffix. The graph's outputs are those without consumers,
    except the outputs of operations that save and restore variables.
    """
    definition = meta.record("graph_def")
    functions = functions_of(definition.record("library"))
    nodes = nodes_of(definition.all("node"), file)
    need(nodes, "the file has no graph", FileError)
    scope = meta.record("saver_def").last("restore_op_name", "").rpartition("/")[0]
    outputs = [
        o for o in unconsumed_outputs(nodes, functions, user_types) if not (scope and o.startswith(f"{scope}/"))
    ]
    inliner = Inliner(functions, file, declared_results(meta))
    flat = by_name(inliner.graph(nodes))
    return InlinedGraph(
        file,
        flat,
        outputs={o: inliner.resolve(o) for o in outputs},
        values=_variables(flat, prefix, Path(file)),
        weights=f"{prefix}.index",
        inliner=inliner,
    )


def _variables(nodes: Mapping[str, GraphNode], prefix: Path, model: Path) -> dict[str, Array]:
    """Return the values of the variables, by the name of the variable's operation."""
    keys = dict(_restored_variables(nodes))
    if not keys:
        return {}
    bundle = Bundle(prefix, model)
    return {name: bundle.array(key) for name, key in keys.items() if key in bundle}


def _restored_variables(nodes: Mapping[str, GraphNode]) -> Iterable[tuple[str, str]]:
    """Yield each variable to which a restored value is assigned, and the key of this value in the checkpoint."""
    for node in nodes.values():
        if node.op not in ASSIGNS or len(node.inputs) < 2:
            continue
        variable = nodes.get(without_identities(nodes, node.inputs[0])[0])
        name, index = without_identities(nodes, node.inputs[1])
        value = nodes.get(name)
        if variable is None or value is None or variable.op not in VARIABLES or value.op != RESTORE:
            continue
        need(
            len(value.inputs) >= 3,
            f"'{value.name}' ({RESTORE}) has {plural(len(value.inputs), 'input')}, expected 3",
            NetworkError,
        )
        names, slices = (_texts(nodes, text) for text in value.inputs[1:3])
        if index < len(names):
            need(
                index >= len(slices) or not slices[index],
                f"variable '{variable.name}' is restored from a slice, which is not supported",
                NetworkError,
            )
            yield variable.name, names[index]


def _texts(nodes: Mapping[str, GraphNode], text: str) -> list[str]:
    """Return the strings of a constant, or an empty list for another operation."""
    node = nodes.get(without_identities(nodes, text)[0])
    value = node.attrs.get("value") if node is not None and node.op == CONSTANT else None
    if not isinstance(value, StoredTensor):
        return []
    names = value.record.all("string_val")
    rule = f"it restores {len(names)} variables; the limit is {MAX_RESTORED_NAMES}"
    need(len(names) <= MAX_RESTORED_NAMES, rule, FileError)
    return [v.decode("utf-8", "backslashreplace") for v in names]
