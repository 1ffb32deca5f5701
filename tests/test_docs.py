"""Run every snippet of README.md and docs/, in order, page by page, in a folder with the examples.

The first word of a fence's info string says what happens to the block:

    python              executed; the blocks of a page share their variables
    python file=x.py    written to x.py; works with any language (prototxt file=net.prototxt)
    console             each `$ command` is run and must succeed; the lines after it are its output, where `...`
                        matches anything. `console exit=1` expects that exit code
    text, sh, py        shown only (output, commands that install, code that cannot run here)

Any other word is a mistake in the page.
"""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from benchmarks import reasons, report
from click.testing import CliRunner
from tools import evidence, pages

from anylayer import errors, ops
from anylayer.cli import main
from anylayer.engines import engines
from anylayer.errors import InputError
from anylayer.kernels.compiler import compiler

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = {"text", "sh", "py"}
FENCE = re.compile(r"^( *)```(.*)$")


@dataclass
class Block:
    """A fenced block: its info string, its text and the number of its first line."""

    info: str
    text: str
    line: int

    def option(self, name: str) -> str | None:
        """Return the value of `name=value` in the info string."""
        for word in self.info.split()[1:]:
            key, _, value = word.partition("=")
            if key == name:
                return value
        return None


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    found: list[Block] = []
    lines: list[str] | None = None
    info, start = "", 0
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if fence and lines is None:
            lines, info, start = [], fence[2].strip(), number
        elif fence and lines is not None:
            found.append(Block(info, "\n".join(lines) + "\n", start))
            lines = None
        elif lines is not None:
            lines.append(line)
    assert lines is None, f"{page.name}:{start}: the block is not closed"
    return found


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the examples and what `make demo` makes of them."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "demo-output").mkdir()
    for make in (
        ("examples/hed/make_model.py", "demo-output/handset.caffemodel"),
        ("examples/hed/trained.py", "demo-output/hed.prototxt", "demo-output/hed.caffemodel", "--hand-set"),
    ):
        subprocess.run([sys.executable, *make], cwd=folder, check=True, capture_output=True)
    return folder


def matches(shown: str, output: str) -> bool:
    """Return whether `output` is what a page shows; `...` matches anything."""
    pattern = ".*".join(re.escape(" ".join(part.split())) for part in shown.split("..."))
    return (
        re.fullmatch(r"\s*" + pattern.replace(r"\ ", r"\s+") + r"\s*", " ".join(output.split()), re.S) is not None
    )


WIDTH = {"COLUMNS": "110"}


def run_process(words: list[str], folder: Path) -> tuple[int, str]:
    """Return the exit status and the output of a command that runs in a process of its own."""
    environment = {**os.environ, **WIDTH, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    return done.returncode, done.stdout + done.stderr


def run_here(words: list[str]) -> tuple[int, str]:
    """Return the same of an `anylayer` command that runs in this process, where the packages are loaded, in its
    current folder.
    """
    result = CliRunner().invoke(main, words[1:], env=WIDTH)
    failure = "" if result.exception is None else "".join(traceback.format_exception(result.exception))
    return result.exit_code, result.stdout + result.stderr or failure


def run_console(block: Block, folder: Path, where: str) -> None:
    """Run the commands of a console block and compare their output with the block."""
    commands: list[tuple[str, list[str]]] = []
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            assert commands, f"{where}: output without a command"
            commands[-1][1].append(line)
    for command, shown in commands:
        words = shlex.split(command)
        assert words[0] in ("anylayer", "python"), f"{where}: {words[0]} is not run here"
        here = words[0] == "anylayer" and not where.startswith("README.md")
        status, output = run_here(words) if here else run_process(words, folder)
        assert status == int(block.option("exit") or 0), f"{where}: {command}\n{output}"
        expected = "\n".join(shown)
        if expected.strip():
            assert matches(expected, output), f"{where}: {command} prints\n{output}"


def has_compiler() -> bool:
    """Return whether `anylayer build` finds a C++ compiler."""
    try:
        return bool(compiler())
    except InputError:
        return False


def need_opencl() -> None:
    """Skip the test, with the reason, where there is no OpenCL device."""
    pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    from anylayer.libraries.pyopencl import device

    try:
        device("")
    except errors.EngineError as error:
        pytest.skip(str(error))


@pytest.mark.one_per()
@pytest.mark.parametrize("page", sorted(PAGES, key=lambda p: p.name != "tutorial.md"), ids=lambda p: p.name)
def test_snippets_run(page: Path, examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if (
        any(line.startswith("$ anylayer build ") for line in page.read_text("utf-8").splitlines())
        and not has_compiler()
    ):
        pytest.skip("there is no C++ compiler")
    if page.name == "opencl-layers.md":
        need_opencl()
    folder = tmp_path / "page"
    shutil.copytree(examples, folder)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        kind = block.info.split()[0] if block.info else ""
        file = block.option("file")
        if file is not None:
            (folder / file).write_text(block.text, "utf-8")
        elif kind == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
        elif kind == "console":
            run_console(block, folder, where)
        else:
            assert kind in SHOWN, f"{where}: a block '{block.info}' has no meaning"


LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)|src=\"([^\"]+)\"")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_linked_files_exist(page: Path) -> None:
    targets = [
        "".join(found) for found in LINK.findall(re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S))
    ]
    local = [t.split("#")[0] for t in targets if "://" not in t and not t.startswith("#")]
    assert not [t for t in local if not (page.parent / t).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_rows_of_a_table_have_as_many_cells_as_its_header(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    tables = [table.splitlines() for table in re.findall(r"(?:^\|.*\n)+", text + "\n", re.M)]
    assert not [row for rows in tables for row in rows if _cells(row) != _cells(rows[0])]


def _cells(row: str) -> int:
    """Return the number of cells of a table's row; 0 if the row does not end in a bar."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1 if row.endswith("|") else 0


def test_every_page_is_linked_from_the_contents() -> None:
    contents = (ROOT / "docs" / "contents.md").read_text("utf-8")
    names = [p.name for p in PAGES if p.parent == ROOT / "docs" and p.name != "contents.md"]
    assert not [name for name in names if f"({name})" not in contents]


def test_first_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 100


def test_first_page_has_the_rows_of_the_evidence() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [\d,]+ \|", (ROOT / "README.md").read_text("utf-8"), re.M)
    assert rows == [*evidence.ROWS]


@pytest.mark.parametrize("page", pages.pages(), ids=lambda p: p.name)
def test_generated_parts_are_current(page: Path) -> None:
    assert pages.current(page) == page.read_text("utf-8"), f"{page.name} is stale: run `make docs`"


def test_performance_page_has_the_text_of_its_generator() -> None:
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    parts = re.split(r"\{machine\}|\{when\}", report._PREFACE)
    assert re.match(".*?".join(map(re.escape, parts)), page, re.S)
    rows = dict(re.findall(r"^\| (\S+) \| .* \| (.*) \|$", page.split("## Still behind")[1], re.M)[2:])
    assert rows
    profiled = rows.keys() & reasons.REASONS.keys()
    assert {name: rows[name] for name in profiled} == {name: reasons.REASONS[name] for name in profiled}


def test_every_operator_is_in_one_table() -> None:
    rows = Counter(re.findall(r"^\| `(\w+)\(", (ROOT / "docs" / "operators.md").read_text("utf-8"), re.M))
    assert rows == Counter(ops.__all__)


def test_engines_page_names_every_engine() -> None:
    page = (ROOT / "docs" / "engines.md").read_text("utf-8")
    assert not [name for name in ("numpy", "auto", *engines()) if f"\n| `{name}` |" not in page]


def test_errors_page_names_every_error() -> None:
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    classes = inspect.getmembers(errors, inspect.isclass)
    names = [n for n, c in classes if issubclass(c, errors.AnyLayerError) and c is not errors.AnyLayerError]
    assert not [name for name in names if f"| `{name}` |" not in page]


GLOSSARY = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines()
    if line.startswith("| ")
][1:]


def test_glossary_is_alphabetical() -> None:
    terms = [term for term, _, _ in GLOSSARY]
    assert terms == sorted(set(terms), key=str.lower)


@pytest.mark.parametrize("name", sorted({code.strip("`") for _, _, code in GLOSSARY if code}))
def test_glossary_names_exist(name: str) -> None:
    pkgutil.resolve_name(name)
