"""Show and write the results of `anylayer run`, and report what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anylayer.cli as cli
from anylayer import inspect
from anylayer.cli.command import echo, say
from anylayer.cli.progress import progress
from anylayer.cli.results import ShowOptions, json_data, lines
from anylayer.cli.running import Runner
from anylayer.cli.targets import OutOption
from anylayer.errors import plural
from anylayer.source import layer_notes

if TYPE_CHECKING:
    from anylayer import Net
    from anylayer.cli.inputs import Loaded
    from anylayer.cli.items import Item
    from anylayer.network import Array
    from anylayer.runtime.model import Model


_LISTED = 20
"""The number of written files that are listed."""


@dataclass
class Presenter:
    """Runs items, shows and writes their results, and reports what was done."""

    runner: Runner
    options: ShowOptions
    targets: Sequence[OutOption]
    quiet: bool = False
    as_json: bool = False

    def run(self, items: Sequence[Item]) -> int:
        """Run the items: results go to stdout and files, the report to stderr. Return how many were skipped."""
        for line in self.runner.loader.describe(items[0]):
            say(line, self.quiet)
        results: list[tuple[str, dict[str, Array]]] = []
        data: list[dict[str, Any]] = []
        written: list[str] = []
        skipped = 0
        joining = [t for t in self.targets if t.holds_all_inputs]
        with progress(len(items), self.quiet) as (advance, tell, warn):
            for item, loaded, outputs in self.runner.results(items):
                if loaded is None or isinstance(outputs, str):
                    warn(f"skipped: {outputs}")
                    data.append({"input": item.source or item.name, "error": outputs})
                    skipped += 1
                else:
                    data.append(self.show(item, loaded, outputs, len(items) > 1, tell))
                    for target in self.targets:
                        if not target.holds_all_inputs:
                            written += target.write(item, loaded, outputs, self.options)
                    if joining:
                        results.append((item.source or item.name, outputs))
                advance()
        for target in joining:
            written += target.write_all(results) if results else []
        self.report(written)
        if self.as_json:
            echo(cli.files.to_json(self._json_data(data, written)))
        if skipped:
            verb = "was" if skipped == 1 else "were"
            say(f"{skipped} of {plural(len(items), 'input')} could not be read and {verb} skipped")
        return skipped

    def show(
        self, item: Item, loaded: Loaded, outputs: dict[str, Array], several: bool, tell: Callable[[str], None]
    ) -> dict[str, Any]:
        place = loaded.place
        if self.as_json:
            shown = {name: json_data(name, a, self.options, place) for name, a in outputs.items()}
            return {"input": item.source or item.name, "outputs": shown}
        if several:
            tell(f"{item.source or item.name}:")
        for name, array in outputs.items():
            for line in lines(name, array, self.options, place):
                tell(line)
        return {}

    def report(self, written: Sequence[str]) -> None:
        """Print the report to stderr: written files, engine and time, layers, notes."""
        runner, model = self.runner, self.runner.model
        if model is None or self.quiet:
            return
        for line in written[:_LISTED]:
            say(line)
        if len(written) > _LISTED:
            say(f"... and {plural(len(written) - _LISTED, 'more file')}")
        duration, timings = inspect.tables.duration, sorted(model.timings.items(), key=lambda t: t[1])
        measured = ", ".join(f"{n} {duration(s)}" for n, s in timings)
        runs = f", median of {len(runner.seconds)} runs" if len(runner.seconds) > 1 else ""
        engine = model.engine + (f" (measured: {measured})" if measured else "")
        say(f"engine {engine}: {duration(runner.median_seconds)} per frame{runs}")
        if model.parts:
            say(inspect.tables.parts_text(model.parts))
        for line in filter(None, (runner.why_single, runner.why_padded)):
            say(line)
        for line in layer_lines(runner.net, model):
            say(line)
        remarks = layer_notes(model.plan.nodes) if model.plan is not None else []
        for note in (*runner.net.network.notes, *remarks):
            say(f"note: {note}")

    def _json_data(self, data: list[dict[str, Any]], written: Sequence[str]) -> dict[str, Any]:
        runner, model = self.runner, self.runner.model
        network = runner.net.network
        return {
            "model": network.source,
            "weights": network.weights,
            "engine": model.engine if model else None,
            "parts": [{"engine": e, "layers": names} for e, names in (model.parts if model else ())],
            "measured_ms": {n: s * 1e3 for n, s in model.timings.items()} if model else {},
            "ms_a_frame": runner.median_seconds * 1e3,
            "batch": runner.batch_size,
            "layers": {t: d.origin for t, d in runner.net.user_layers.items()},
            "native_layers": [
                {"node": n, "type": t, "library": x} for n, t, x in (model.native_layers if model else ())
            ],
            "host_calls": [{"node": n, "type": t, "reason": r} for n, t, r in (model.host_calls if model else ())],
            "results": data,
            "written": [w.removeprefix("wrote ").split(": ")[0] for w in written],
        }


def layer_lines(net: Net, model: Model) -> Iterator[str]:
    """Yield lines that say which layers came from the user's files, and which run in Python and why."""
    host = model.host_calls
    from_files = {t: d for t, d in net.user_layers.items() if not d.is_function}
    if from_files:
        parts = []
        for type_, definition in from_files.items():
            nodes = [n for n in net.network.nodes if n.type == type_]
            parts.append(f"{type_} ({Path(definition.origin).name}, {plural(len(nodes), 'node')})")
        user_names = {name for name, type_, _ in host if type_ in from_files}
        tail = f"in Python: {plural(len(user_names), 'node')}" if user_names else "none of them runs in Python"
        if model.engine == "numpy":
            tail = "run in NumPy like all layers"
        yield f"layers from your files: {', '.join(parts)}; {tail}"
    for name, type_, library in model.native_layers:
        yield f"layer '{name}' ({type_}) runs in {Path(library).name}"
    for name, type_, reason in host:
        yield f"layer '{name}' ({type_}) runs in Python: {reason}"
