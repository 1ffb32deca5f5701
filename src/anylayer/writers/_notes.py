"""Notes and reasons that several writers give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anylayer.graph import Op


def renamed_output_notes(outputs: Mapping[str, str]) -> list[str]:
    """Return a note for each output whose name in the file differs. `outputs` maps its name to the file's."""
    return [
        f"output '{ours}' is called '{theirs}' in the file, because an input has its name"
        for ours, theirs in outputs.items()
    ]


def why_not_run(kept: Iterable[Op]) -> str:
    """Return why no runtime here can run a file with these kept layers; "" if all of them have a body."""
    types = dict.fromkeys(op.op for op in kept if op.body is None)
    return f"nothing here computes the kept layers: {', '.join(types)}" if types else ""
