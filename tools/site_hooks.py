"""Prepare the pages of docs/ and of the project's root for MkDocs: see mkdocs.yml.

The pages are written for a reader of the repository. Here README.md becomes the home page, CONTRIBUTING.md,
CHANGELOG.md and SECURITY.md become pages, and the reference is made from docstrings. A link to a file of the
repository leads to a copy of that file in the site; a link to a folder becomes plain text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
_MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
_REFERENCE = {
    "index": (
        "Read, run and write",
        [
            *("anylayer.read", "anylayer.Net", "anylayer.export.export", "anylayer.OpenCL"),
            *("anylayer.diff.diff", "anylayer.inspect.diff_result.Diff"),
            *("anylayer.identify.identify", "anylayer.inspect.identification.Identification"),
        ],
    ),
    "layers": (
        "Layers",
        ["anylayer.layer.layer", "anylayer.layer.Layer", "anylayer.layer.field", "anylayer.layer.need"],
    ),
    "ops": ("Operators", ["anylayer.ops"]),
    "errors": ("Errors", ["anylayer.errors"]),
}
_FENCE = re.compile(r"^( *```)(\w+)((?: +\w+=\S+)+)$", re.M)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_copied: set[Path] = set()


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the project's root and the pages of the reference."""
    _copied.clear()
    for name, page in _MOVED.items():
        files.append(File.generated(config, page, content=_rewritten((ROOT / name).read_text("utf-8"), ROOT)))
    for page, (title, names) in _REFERENCE.items():
        text = f"# {title}\n\n" + "\n\n".join(f"::: {name}" for name in names) + "\n"
        files.append(File.generated(config, f"reference/{page}.md", content=text))
    for path in (ROOT / "docs").glob("*.md"):
        _rewritten(path.read_text("utf-8"), path.parent)
    for path in sorted(_copied):
        target = f"files/{path.relative_to(ROOT).as_posix()}.txt"
        files.append(File.generated(config, target, content=path.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links and the fences of a page of docs/."""
    if page.file.generated_by is not None:
        return markdown
    return _rewritten(markdown, ROOT / "docs")


def _rewritten(text: str, folder: Path) -> str:
    """Return the text of a page in `folder`, with the links and the fences of the site."""
    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.M | re.S)
    parts[::2] = [_LINK.sub(lambda found: _link(found, folder), part) for part in parts[::2]]
    return _FENCE.sub(_fence, "".join(parts)).replace("](docs/images/", "](images/")


def _fence(found: re.Match[str]) -> str:
    """Return the first line of a code block: the file that a block is written to becomes its title."""
    name = re.search(r"file=(\S+)", found[3])
    return f"{found[1]}{found[2]}" + (f' title="{name[1]}"' if name else "")


def _link(found: re.Match[str], folder: Path) -> str:
    """Return a link as the site needs it."""
    text, target, anchor = found[1], found[2], found[3] or ""
    if "://" in target:
        return found[0]
    path = Path(os.path.normpath(folder / target))
    name = path.relative_to(ROOT).as_posix()
    if name in _MOVED:
        return f"[{text}]({_MOVED[name]}{anchor})"
    if path.parent == ROOT / "docs":
        return f"[{text}]({path.name}{anchor})"
    if path.is_dir():
        return text
    _copied.add(path)
    return f"[{text}](files/{name}.txt)"
