"""Report text that is hard to understand, with file, line and a better phrase: `python -m tools.words`.

`make check` runs it. It fails for a phrase of BANNED, for a docstring of a function that does not begin with a
verb, and if `src` has more odd identifiers (tools/names.py) than its ceiling in pyproject.toml allows.

A phrase is a regular expression in lower case, matched against whole files in lower case. The names of tests are
read as sentences: `def test_a_b` as "def test a b". A space in a phrase also matches a line break. A phrase must
not match a correct sentence: list phrases, not words that are often right ("known").
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools import counts

ROOT = Path(__file__).resolve().parent.parent

_THING = (
    "(number|array|tensor|constant|layer|operator|whole|graph|file|list|name|input|output|integer|picture|node|type|"
    "class|value|blob|dict|string|int|selection|interpolation|size|reference|model)s?"
)
BANNED = {
    r"(?<!maximum\s)suppressions?": "NMS",
    r"a pass over (the|an|its|one) \w+ less": "saves a pass over ...",
    r"and its like": "and similar functions",
    r"anew": "again",
    r"(array|tensor)s? of no axes": "array of rank 0",
    r"as (it is|they are) told": "as given by ...",
    r"as (the|a) (network|layer|library|class) (sees|has) (it|them)": "in its dtype and order of axes",
    r"at hand": "available",
    r"behind (a|an|the|it|its|each|every|them)": "after",
    r"channels lie": "the channel axis; channels-first or channels-last",
    r"(class|layer|file|graph|suffix)s? (or the \w+ )?tells?": "declares, states, determines",
    r"code of the user's(?! \w)": "user code",
    r"comes? from outside": "name the source",
    r"computes? of": "computes from",
    r"dea(l|ls|lt|ling) out": "permute, distribute",
    r"counts? (where|in the next)": "is used",
    r"(do|does) not count(?=[.,;:)(]| as)": "is ignored, is not included",
    r"does without": "does not need",
    r"enters? (its|their|the|your) (definitions|rules|operators|corrections|functions)": "register",
    r"from which on": "the smallest number for which ...",
    r"(goes|go) by": "is named, depends on",
    r"gpus? of (nvidia|intel|amd)'s": "NVIDIA GPU",
    r"(hand|hands|handed|handing) over": "pass, copy",
    r"held (against|to) (its|the|what|that|numpy|real)": "compared with",
    r"is held to": "must match ... within a tolerance",
    r"how far (from|the)": "the largest distance, the difference",
    r"(is|are) none of": "is not one of",
    r"(is|are) the most(?! \w)": "at most",
    r"(is|are|was|were) told": "is given, is named",
    r"lay(s|ing)? (the |their )?channels? (first|last)": "channels-first, channels-last",
    r"lines? that leads?": "the lines before ...",
    r"makers?": "producer",
    r"mend(s|ed|ing)?": "correct",
    r"mixtures?": "interpolation",
    r"need (it )?not be told": "does not have to be given",
    r"nobody (reads|knows|asks)": "without consumers; unknown",
    r"none but": "only",
    r"nothing (else )?reads": "without (other) consumers",
    r"one an? (channel|axis|output|input|sample|bin|node|layer|element|step|row|window|case)": "one per ...",
    r"of old(?! \w)": "older, former",
    r"operators? with jumps": "discontinuous operators",
    r"otherwise than": "differently from",
    r"out: so is it": "and is therefore left out as well",
    r"put off": "deferred",
    r"(reads|takes) and gives?": "inputs and outputs",
    r"refused with what": "is refused, and the message says ...",
    r"rounds of (a |the )?loops?": "iterations",
    r"settl(e|es|ed|ing)": "materialize",
    r"shares? (its |their |the )?rounds": "are collapsed into one loop; divide the iterations",
    r"so (is it|it is) with": "name what happens and why",
    r"so manieth": "n-th",
    r"spelled otherwise": "replaced by, written in another way",
    r"such (as (it|they) may be|(a|an) one)": "for example; name the thing",
    r"that cannot be (is|are)": "impossible",
    r"take apart": "split into, replace by",
    r"taken apart": "split into, replaced by",
    r"the words that call": "the command, as a list of arguments",
    r"the most (elements|operations|operators|samples|values|further)": "the largest number of ...",
    r"told by": "given by, determined by",
    r"travels? (to|with) (the process|it)": "is sent",
    r"turned (over|round|around)": "reversed, transposed",
    r"up to which": "the largest number for which ...",
    r"values? an? (channel|axis|sample|bin|node|row)": "per ...",
    r"what (gives|makes|made) its?": "name the thing: the producer, the identity",
    r"what (is (asked|told|meant|wanted)|stands)": "name the thing",
    r"what (it|they) (is|are) told": "the arguments",
    r"what (it|they|he|a \w+|the \w+) gives?": "its outputs, its result",
    r"what (reads|gives|makes|takes) (it|them)": "its producer, its consumers",
    r"what is there": "name the thing",
    r"with a way out": "with a remedy",
    r"without a word": "silently",
    r"who reads": "consumers",
    r"whole numbers?": "integer",
    r"wins over": "replaces, takes precedence over",
    r"worked out": "computed",
    rf"(?<!there\s)(is|are) no {_THING}": "is not a(n) ...",
}
"""Phrase -> a better one."""

_FIRST_WORDS = """
a all an as at by each every for from how if in it its no none not of on one same some that the these this those to
true false two what when where whether which who why with
"""
NO_VERBS = frozenset(_FIRST_WORDS.split())
"""First words of docstrings that are not sentences."""


def files() -> list[Path]:
    """Return the files of the project that hold sentences, except this one and its test."""
    own = (Path(__file__).resolve(), ROOT / "tests" / "test_words.py")
    folders = ("benchmarks", "docs", "examples", "src", "tests", "tools")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.*") if path.suffix in (".md", ".py")]
    return [*ROOT.glob("*.md"), *sorted(path for path in found if path not in own)]


def compiled(phrase: str) -> re.Pattern[str]:
    """Return a pattern in which a space matches a line break and the beginning of a comment, too.

    It has no word boundary at its beginning: `re` finds a literal beginning much faster.
    """
    return re.compile(phrase.lower().replace(" ", r"(?: |\s*\n\s*(?:# ?)?)") + r"\b")


def with_test_names(text: str) -> str:
    """Return a text with a space for each underscore in the names of its tests."""
    return re.sub(r"\bdef test_\w+", lambda name: name[0].replace("_", " "), text)


def found(phrases: Mapping[str, str], texts: Mapping[Path, str]) -> Iterator[tuple[str, Path, int, str]]:
    """Yield (phrase, file, line, text) for each occurrence of a phrase in lower-case texts."""
    for phrase in phrases:
        pattern = compiled(phrase)
        for path, text in texts.items():
            for match in pattern.finditer(text):
                if match.start() == 0 or not (text[match.start() - 1].isalnum() or text[match.start() - 1] == "_"):
                    yield phrase, path, text.count("\n", 0, match.start()) + 1, " ".join(match[0].split())


def fragments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the first line of each docstring of a function that does not begin with a verb.

    Tests need no verb, and properties and fixtures may be described by a noun.
    """
    for node in functions(ast.parse(path.read_text("utf-8")).body):
        if node.name.startswith("test_"):
            continue
        text = ast.get_docstring(node)
        nouns = any(word in ast.unparse(d) for d in node.decorator_list for word in ("property", "fixture"))
        if text and not nouns:
            word = text.split()[0].rstrip(",.;:")
            if word.lower() in NO_VERBS or not word[:1].isupper():
                yield node.lineno, text.split("\n")[0]


def functions(statements: Sequence[ast.AST]) -> Iterator[ast.FunctionDef]:
    """Yield the functions that statements define, those inside of other statements too."""
    for statement in statements:
        if isinstance(statement, ast.FunctionDef):
            yield statement
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from functions(getattr(statement, part, ()))


def main() -> int:
    """Print what is found. Return 1 if anything is found, else 0."""
    paths = files()
    texts = {path: with_test_names(path.read_text("utf-8").lower()) for path in paths}
    lines = [
        f"{path.relative_to(ROOT)}:{line}: '{text}': better: {BANNED[phrase]}"
        for phrase, path, line, text in found(BANNED, texts)
    ]
    lines += [
        f"{path.relative_to(ROOT)}:{line}: '{text}': begin with a verb: Return, Raise, Fold ..."
        for path in paths
        if path.suffix == ".py"
        for line, text in fragments(path)
    ]
    identifiers = counts.current(kinds=["odd identifiers"])
    lines += counts.excesses(identifiers)
    print("\n".join(lines) or "no phrase to replace")
    print(f"odd identifiers in src: {identifiers['odd identifiers'].total()}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
