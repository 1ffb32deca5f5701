"""Count what the source code must not get more of: `python -m tools.counts [FOLDER] [--check [--lower]]`.

`--check`, a part of `make check`, compares the counts of `src` with the ceilings in pyproject.toml. A count above
its ceiling is an error, with the files that grew most since the ceilings were set. `--lower` sets each ceiling to
its count, if that is lower. A ceiling is raised by hand only, with the reason in the commit.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tools import names

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ROOT / "pyproject.toml"
TITLE = "[tool.anylayer.ceilings]\n"
SHOWN = 5
"""The number of files that a message about a ceiling lists."""
ANY = re.compile(r"\bAny\b")
LIMIT = re.compile(r"_?(\w+_)?(MAX|MOST|LIMIT|LARGEST)(_\w+)?")
"""The names of constants that state a limit."""


def late_imports(node: ast.AST, late: bool = False) -> int:
    """Count the import statements inside functions, except those for type checkers."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return sum(late_imports(below, late) for below in node.orelse)
    late = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    here = late and isinstance(node, (ast.Import, ast.ImportFrom))
    return here + sum(late_imports(below, late) for below in ast.iter_child_nodes(node))


def limits(tree: ast.Module) -> int:
    """Count the constants of a module that state a limit."""
    targets = [t for s in tree.body if isinstance(s, ast.Assign) for t in s.targets]
    targets += [s.target for s in tree.body if isinstance(s, ast.AnnAssign)]
    constants = [
        n.id for t in targets for n in (t.elts if isinstance(t, ast.Tuple) else [t]) if isinstance(n, ast.Name)
    ]
    return sum(LIMIT.fullmatch(name) is not None for name in constants)


COUNTS: dict[str, Callable[[str, ast.Module], int]] = {
    "lines": lambda text, tree: len(text.splitlines()),
    "files": lambda text, tree: 1,
    "uses of Any": lambda text, tree: len(ANY.findall(text)),
    "imports inside functions": lambda text, tree: late_imports(tree),
    "odd identifiers": lambda text, tree: len(names.odd(tree)),
    "limits": lambda text, tree: limits(tree),
}
"""What is counted -> the count of a file, from its text and its syntax tree."""


def counts(texts: Mapping[str, str], kinds: Iterable[str]) -> dict[str, Counter[str]]:
    """Return the counts of some kinds, per file."""
    result = {kind: Counter[str]() for kind in kinds}
    for path, text in texts.items():
        tree = ast.parse(text)
        for kind in result:
            result[kind][path] = COUNTS[kind](text, tree)
    return result


def files(folder: Path) -> dict[str, str]:
    """Return the text of each Python file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))}


def ceilings(settings: Path = SETTINGS) -> dict[str, int]:
    """Return the largest number allowed of each kind that has a ceiling."""
    table: dict[str, int] = tomllib.loads(settings.read_text("utf-8"))["tool"]["anylayer"]["ceilings"]
    return table


def earlier_files(settings: Path = SETTINGS) -> dict[str, str]:
    """Return the files of `src` in the commit that set the ceilings last. Without Git's history, return none."""
    section = rf"-L/^\[tool.anylayer.ceilings\]/,/^$/:{settings.name}"
    git = ["git", "-C", str(settings.parent)]
    log = subprocess.run([*git, "log", "-1", "-s", "--format=%H", section], capture_output=True, text=True)
    commit = log.stdout.strip()
    if log.returncode or not commit:
        return {}
    archive = subprocess.run([*git, "archive", commit, "src"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = [m for m in tar.getmembers() if m.isfile() and m.name.endswith(".py")]
        texts = {m.name.removeprefix("src/"): tar.extractfile(m) for m in members}
        return {name: file.read().decode() for name, file in texts.items() if file is not None}


def current(settings: Path = SETTINGS, kinds: Iterable[str] = ()) -> dict[str, Counter[str]]:
    """Return the counts of `src`, per file: of some kinds, or of all that have a ceiling."""
    return counts(files(settings.parent / "src"), kinds or ceilings(settings))


def excesses(now: Mapping[str, Counter[str]], settings: Path = SETTINGS) -> list[str]:
    """Return a message for each kind of which there is more than its ceiling allows."""
    allowed = ceilings(settings)
    above = [kind for kind, per_file in now.items() if per_file.total() > allowed[kind]]
    before = counts(earlier_files(settings), above) if above else {}
    return [_excess(kind, allowed[kind], now[kind], before[kind]) for kind in above]


def _excess(kind: str, most: int, now: Counter[str], before: Counter[str]) -> str:
    growth = Counter({path: number - before[path] for path, number in now.items()})
    lines = [f"    {path}: {before[path]} -> {now[path]}" for path, n in growth.most_common(SHOWN) if n > 0]
    return "\n".join([f"{kind}: {now.total()}, at most {most} are allowed. The files that grew most:", *lines])


def slack(now: Mapping[str, Counter[str]], settings: Path = SETTINGS) -> dict[str, tuple[int, int]]:
    """Return the count and the ceiling of each kind of which there is less than its ceiling allows."""
    allowed = ceilings(settings)
    return {k: (now[k].total(), allowed[k]) for k in now if now[k].total() < allowed[k]}


def lower(now: Mapping[str, Counter[str]], settings: Path = SETTINGS) -> None:
    """Set each ceiling above its count to the count."""
    start, title, table = settings.read_text("utf-8").partition(TITLE)
    for kind, (count, _) in slack(now, settings).items():
        table = re.sub(rf'^("?{re.escape(kind)}"? = )\d+$', rf"\g<1>{count}", table, count=1, flags=re.M)
    settings.write_text(start + title + table, "utf-8")


def check(lowering: bool, settings: Path = SETTINGS) -> int:
    """Print the counts that differ from their ceilings. Return 1 if one is above, else 0."""
    now = current(settings)
    messages = excesses(now, settings)
    remedy = "the ceiling is lowered" if lowering else "lower the ceiling: python -m tools.counts --check --lower"
    notes = [f"{kind}: {count} of {most}; {remedy}" for kind, (count, most) in slack(now, settings).items()]
    if lowering:
        lower(now, settings)
    print("\n".join([*messages, *notes]) or "each count is at its ceiling")
    return 1 if messages else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "src")
    parser.add_argument("--check", action="store_true", help="compare with the ceilings")
    parser.add_argument("--lower", action="store_true", help="with --check: lower the ceilings to the counts")
    options = parser.parse_args()
    if options.check:
        return check(options.lower)
    for kind, per_file in counts(files(options.folder), COUNTS).items():
        print(f"{kind}: {per_file.total()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
