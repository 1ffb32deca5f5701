"""Add the figures of a report to an ONNX file, as metadata of its nodes, which viewers show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from anylayer.inspect.listing import short, where
from anylayer.inspect.report import NodeReport, Report
from anylayer.inspect.tables import count, duration
from anylayer.libraries.onnx import onnx
from anylayer.libraries.whole import write_whole

_IR_VERSION = 10
"""The first version of ONNX files whose nodes have metadata."""


def annotate(path: Path, report: Report) -> None:
    """Add the figures of each node of a report to the nodes of an ONNX file that compute it.

    The file's nodes are named after the network's: "conv1", and "conv1/Mul" for further operators of that node.
    Weights in a second file stay there.
    """
    rows = {n.name: n for n in report.nodes}
    model = onnx.load(path, load_external_data=False)
    model.ir_version = max(model.ir_version, _IR_VERSION)
    for node in model.graph.node:
        row = rows.get(node.name) or rows.get(node.name.rpartition("/")[0])
        for key, value in _figures(row, report) if row is not None else ():
            node.metadata_props.add(key=key, value=value)
    write_whole(path, lambda file: file.write(model.SerializeToString()))


def _figures(n: NodeReport, report: Report) -> Iterator[tuple[str, str]]:
    """Yield the figures of a node as (name, text)."""
    yield "layer", f"{n.name} ({n.type})"
    if params := short(n.params):
        yield "params", params
    yield "runs in", where(n, reason=True)
    if n.weights:
        yield "weights", count(n.weights)
    if n.macs:
        yield "multiply-adds", count(n.macs)
    f = n.figures
    if f is None:
        return
    if f.seconds is not None:
        profile = report.measured.profile if report.measured is not None else None
        share = f", {f.seconds / profile.total:.1%} of the run" if profile is not None and profile.total else ""
        yield "time", f"{duration(f.seconds)}{share}"
    if len(f.together) > 1:
        yield "runs with", ", ".join(name for name in f.together if name != n.name)
    if f.precision:
        yield "precision", f.precision
    if f.check is not None and not f.check.note:
        yield "error", f"{f.check.relative:.1e} {'agrees' if f.check.ok else 'DIFFERS'} (against NumPy)"
