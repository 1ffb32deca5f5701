"""Write the generated parts of README.md and docs/ again: `python -m tools.pages`, or `make docs`.

A generated part stands between two comments. The first names a function of this file and its arguments:

    <!-- generated: operators conv conv_transpose -->
    <!-- end of generated part -->

docs/rewrites.md is generated as a whole, by benchmarks/rules.py. tests/test_docs.py fails if a page is stale.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from anylayer import errors, ops
from anylayer.convert.regimes import REGIMES
from anylayer.folders import load, modules, summary
from anylayer.layer import Definition, Registry
from anylayer.optimize.order import load_rules
from anylayer.optimize.rules import ANY, RULES

ROOT = Path(__file__).resolve().parent.parent
END = "<!-- end of generated part -->"
_PART = re.compile(r"<!-- generated: ([^\n]*?) -->\n.*?" + re.escape(END), re.S)


def markdown_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; `|` inside a cell is escaped."""
    heads = [*heads]
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    head, rule, *rest = (" | ".join(line) for line in lines)
    return "\n".join([f"| {head} |", f"|{rule.replace(' ', '')}|", *(f"| {line} |" for line in rest)])


def first_paragraph(thing: Any) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def signature(name: str) -> str:
    """Return an operator's signature without annotations: `relu(x)`."""
    parts, starred = [], False
    for parameter in inspect.signature(getattr(ops, name)).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}".replace("'", '"')
        parts.append(parameter.name + default)
    return f"{name}({', '.join(parts)})"


def operators(*names: str) -> str:
    """Return a table of some operators of anylayer.ops, from their signatures and docstrings."""
    rows = ((f"`{signature(name)}`", first_paragraph(getattr(ops, name))) for name in names)
    return markdown_table(("operator", "result"), rows)


def differences() -> str:
    """Return the table of differences between engines and NumPy, which the hostile programs check."""
    return str(importlib.import_module("tests.hostile.programs.stated").markdown())


def commands(*names: str) -> str:
    """Return a table of the commands with the first lines of their files, the named ones first."""
    found = {name: summary("cli/commands", name) for name in modules("cli/commands")}
    ordered = [*names, *(name for name in found if name not in names)]
    return markdown_table(("command", "what it does"), ((f"`{n}`", found[n].rstrip(".")) for n in ordered))


_RUN_BY = {
    "numpy": "anylayer's own reader, layer by layer in NumPy",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
}


def writers() -> str:
    """Return a table of the formats that `anylayer convert` writes, from the writers' declarations."""
    found = [(name, load("writers", name)) for name in modules("writers")]
    rows = ((m.WHAT, f"`{name}`", _RUN_BY[m.RUNS]) for name, m in found if hasattr(m, "WHAT"))
    return markdown_table(("what is written", "`--to`", "what runs it for the comparison"), rows)


def verification_rules() -> str:
    """Return a table of the rules by which an output of a written file passes, in their order."""
    rows = ((f"`{r.name}`", r.applies, r.compares, r.tolerance, r.reason) for r in REGIMES)
    return markdown_table(("rule", "applies to", "compares", "within", "because"), rows)


def readers() -> str:
    """Return a table of the formats that anylayer reads, with the options of anylayer.read for each."""
    rows = []
    for name in modules("readers"):
        module = load("readers", name)
        options = ", ".join(f"`{option}`" for option in module.OPTIONS)
        rows.append((module.WHAT, options or "none"))
    return markdown_table(("format", "options of `anylayer.read`"), rows)


def layers(format: str, *prefixes: str) -> str:
    """Return the built-in layer types of a format in one paragraph, and one more per prefix.

    `layers("keras", "ops.")` lists the types without the prefix "ops.", then those with it.
    """
    types = sorted(set(Registry.of(format).types()), key=lambda t: (t.lower(), t))
    groups = [[t for t in types if "." not in t]]  # a name with a dot and another prefix is internal
    groups += [[t for t in types if t.startswith(prefix)] for prefix in prefixes]
    return "\n\n".join(", ".join(f"`{t}`" for t in group) + f" ({len(group)} types)" for group in groups)


def groups(format: str) -> str:
    """Return a table of a format's layer types, one row per source file, whose docstring names the group.

    For a file whose types all have a dot in their names, it has their number.
    """
    found: dict[Any, list[str]] = {}
    for definition in Registry.of(format).definitions():
        found.setdefault(inspect.getmodule(definition.cls), []).append(definition.type)
    rows = []
    for module, types in found.items():
        own = sorted(t for t in types if "." not in t)
        shown = ", ".join(f"`{t}`" for t in own) or f"{len(types)} types: see [layers](layers.md)"
        rows.append((first_paragraph(module).rstrip("."), shown))
    return markdown_table(("group", "layers"), sorted(rows))


def error_classes() -> str:
    """Return a table of the subclasses of AnyLayerError, from their docstrings."""
    found = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, errors.AnyLayerError)]
    rows = ((f"`{c.__name__}`", first_paragraph(c).rstrip(".")) for c in found if c is not errors.AnyLayerError)
    return markdown_table(("class (`anylayer.errors`)", "meaning"), rows)


def dialects() -> str:
    """Return a table of Caffe's layer types that have several definitions: one row per definition."""
    found: dict[str, list[Definition]] = {}
    for definition in Registry.of("caffe").definitions():
        found.setdefault(definition.type, []).append(definition)
    rows = (
        (definition.type, ", ".join(definition.dialects) or "all others", definition.summary)
        for _, definitions in sorted(found.items())
        for definition in definitions
        if len(definitions) > 1
    )
    return markdown_table(("layer", "dialects", "meaning"), rows)


def corrections() -> str:
    """Return a table of the corrections of each engine, from their docstrings."""
    load_rules("corrections")
    found = [(target, r) for r in RULES for target in r.targets if r.apply.__module__ in _CORRECTIONS]
    rows = []
    for target, r in sorted(found, key=lambda pair: pair[0]):
        shown = [f"`{name}`" for name in r.ops[:_MAX_NAMES] if name != ANY] or ["all"]
        more = f" and {len(r.ops) - _MAX_NAMES} more" if len(r.ops) > _MAX_NAMES else ""
        rows.append((f"`{target}`", ", ".join(shown) + more, first_paragraph(r.apply)))
    return markdown_table(("engine", "operators", "correction"), rows)


_MAX_NAMES = 8
_CORRECTIONS = [f"anylayer.corrections.{name}" for name in modules("corrections")]

GENERATORS: dict[str, Callable[..., str]] = {
    f.__name__: f
    for f in (
        operators,
        differences,
        commands,
        writers,
        readers,
        layers,
        dialects,
        corrections,
        groups,
        error_classes,
        verification_rules,
    )
}


def filled(text: str) -> str:
    """Return a page's text with every generated part as it must be now."""

    def part(found: re.Match[str]) -> str:
        name, *arguments = found[1].split()
        return f"<!-- generated: {found[1]} -->\n\n{GENERATORS[name](*arguments)}\n\n{END}"

    return _PART.sub(part, text)


def pages() -> list[Path]:
    """Return the pages that have generated parts, or are generated as a whole."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [p for p in found if p == _REWRITES or "<!-- generated: " in p.read_text("utf-8")]


_REWRITES = ROOT / "docs" / "rewrites.md"


def current(page: Path) -> str:
    """Return the text that a page must have."""
    if page == _REWRITES:
        return str(importlib.import_module("benchmarks.rules").page())
    return filled(page.read_text("utf-8"))


def main() -> None:
    """Write every page whose text has changed, and print its name."""
    sys.path.insert(0, str(ROOT))
    for page in pages():
        text = current(page)
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
