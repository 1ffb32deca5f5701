"""python -m benchmarks PART...: measure, print the tables and save the figures.

Parts: networks operators layers python native loading overhead tensorflow keras, or all. `report` prints what was
measured before, and with --docs writes it to docs/performance.md, without measuring. Where not all parts were
measured, the page keeps its tables of the others.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import report, results
from benchmarks.guard import Guard
from benchmarks.processes import ROOT
from benchmarks.setup import Setup
from benchmarks.table import Table

PARTS = ("networks", "operators", "layers", "python", "native", "loading", "overhead", "tensorflow", "keras")
_PEERS, _COMPILERS = ROOT / ".venv-peers", ROOT / ".venv-compilers"
_RESULTS = ROOT / "benchmarks" / "results.json"
_DOCS = ROOT / "docs" / "performance.md"


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", type=_part, metavar="PART")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="measure rows whose names contain NAME"
    )
    parser.add_argument("--rounds", type=int, default=12, metavar="N", help="turns of each contestant [12]")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of each engine [2]")
    parser.add_argument("--processor-time", action="store_true", help=_HELP_PROCESSOR)
    parser.add_argument("--engine", default="auto", help="anylayer's engine [auto]")
    parser.add_argument("--json", type=Path, default=_RESULTS, metavar="FILE", help=_HELP_JSON)
    parser.add_argument("--peers", default=os.environ.get("ANYLAYER_PEERS"), metavar="FOLDER", help=_HELP_PEERS)
    parser.add_argument("--make-peers", action="store_true", help="create .venv-peers, with OpenCV and ncnn")
    parser.add_argument("--make-compilers", action="store_true", help="create .venv-compilers, for part python")
    parser.add_argument("--plain", action="store_true", help="tables without colours and lines")
    parser.add_argument("--docs", action="store_true", help="write docs/performance.md")
    found = parser.parse_args(given)
    if not (found.parts or found.make_peers or found.make_compilers):
        parser.error("say what to measure")
    return found


def _part(name: str) -> str:
    """Check the name of a part (argparse's `choices` refuse an empty list before Python 3.12)."""
    known = (*PARTS, "all", "report")
    if name not in known:
        raise argparse.ArgumentTypeError(f"there is no part {name!r}; the parts are {', '.join(known)}")
    return name


_HELP_PROCESSOR = "measure the processor's time, with --threads 1 beside other programs"
_HELP_JSON = "where the results are kept; rows measured again replace older ones [benchmarks/results.json]"
_HELP_PEERS = "the peers' environment [$ANYLAYER_PEERS, or .venv-peers where it exists]"


def peers(folder: str | None) -> str | None:
    """Return the Python of the environment with OpenCV and ncnn, or None if there is none."""
    return _python(Path(folder) if folder else _PEERS, bool(folder))


def _python(place: Path, required: bool = False) -> str | None:
    """Return the Python of an environment, or None if there is none. Exit where it is required."""
    for python in (place / "bin" / "python", place / "Scripts" / "python.exe"):
        if python.exists():
            return str(python)
    if required:
        sys.exit(f"{place} has no Python environment")
    return None


def make_environment(place: Path) -> None:
    """Create an environment with the packages of benchmarks/peers or benchmarks/compilers."""
    venv.create(place, with_pip=True)
    requirements = ROOT / "benchmarks" / place.name.removeprefix(".venv-") / "requirements.txt"
    subprocess.run([_python(place, True) or "", "-m", "pip", "install", "-r", str(requirements)], check=True)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="anylayer-bench-") as name:
        yield Path(name)


def run(options: argparse.Namespace) -> None:
    """Measure the parts, and save after every row."""
    python = peers(options.peers)
    parts = PARTS if "all" in options.parts else [p for p in PARTS if p in options.parts]
    found = results.begin(options.json, python)
    with Guard() as guard, _folder() as folder:
        # Keep Python's compiled files, as for every user, even if the environment disables them.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        # Ignore what "auto" chose before, with other code of anylayer.
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        names = tuple(options.only)
        setup = Setup(guard, folder, python, options.rounds, options.threads, names, options.engine)
        setup.compilers, setup.processor = _python(_COMPILERS), options.processor_time
        for part in parts:
            start = time.perf_counter()
            for row in importlib.import_module(f"benchmarks.parts.{part}").run(setup):
                found = results.merge(found, [row])
                results.save(options.json, found)
                print(f"{part}: {row['name']} ({time.perf_counter() - start:.0f} s)", file=sys.stderr)
                start = time.perf_counter()
        if guard.waited > 1:
            print(f"waited {guard.waited:.0f} s for the machine's fast mode", file=sys.stderr)


def show(tables: list[Table], plain: bool) -> None:
    """Print the tables."""
    if plain or not sys.stdout.isatty():
        print("\n".join(table.text() for table in tables))
        return
    from rich.console import Console

    console = Console()
    for table in tables:
        console.print(table.rich())
        for note in table.notes:
            console.print(f"  {note}", markup=False, highlight=False)


def main() -> None:
    """Measure or report, as the command line says."""
    options = arguments()
    for wanted, place in ((options.make_peers, _PEERS), (options.make_compilers, _COMPILERS)):
        if wanted:
            make_environment(place)
    if set(options.parts) - {"report"}:
        run(options)
    if options.parts:
        found = results.load(options.json)
        made, behind = report.tables(found)
        show([*made, report.behind_table(behind, found)], options.plain)
        print(report.machine(found))
        if options.docs:
            whole = set(PARTS) <= {row["part"] for row in found["rows"]}
            _DOCS.write_text(report.document(found) if whole else report.updated(_DOCS.read_text(), found))


if __name__ == "__main__":
    main()
