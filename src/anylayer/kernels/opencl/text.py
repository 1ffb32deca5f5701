"""The text of a program, in the form that is shown and dumped, and in the form that is compiled."""

from __future__ import annotations

import re
from collections.abc import Sequence

from anylayer.kernels.opencl.configuration import CustomLayer

_HALF = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+OPENCL[ \t]+EXTENSION[ \t]+cl_khr_fp16[ \t]*:.*$", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)


class ProgramText:
    """The program of a kernel for one set of parameters.

    `compiled` has #line directives, so that the compiler's messages name the user's files and lines, and no name
    of a layer, so that layers with equal parameters share a program. `prints` says that a source file calls
    printf, `includes` that one includes other files.
    """

    def __init__(self, layer: CustomLayer, built_ins: Sequence[str], defines: Sequence[tuple[int, str]]) -> None:
        self._layer, self._built_ins, self._defines = layer, list(built_ins), list(defines)
        lines = [*built_ins]
        for number, define in defines:
            lines += [f"#line {number} {_quoted(layer.file)}", define]
        text = "\n".join(lines) + "\n"
        for source in layer.sources:
            text += f"#line 1 {_quoted(source.name)}\n{_closed(source.text)}"
        self.compiled = text
        self.prints = any(re.search(r"\bprintf\b", source.text) for source in layer.sources)
        self.includes = any(_INCLUDE.search(source.text) for source in layer.sources)

    def shown(self, name: str) -> str:
        """Return the text in the form of OpenVINO's documentation, with the name of a layer that has these
        parameters.
        """
        layer = self._layer
        lines = [*self._built_ins, "", f"// Layer {_comment(name)} using Custom Layer {_comment(layer.type)}"]
        lines += ["// Custom Layer User Defines", *(define for _, define in self._defines)]
        text = "\n".join(lines) + "\n"
        for source in layer.sources:
            text += f"// Custom Layer Kernel {_comment(source.name)}\n{_closed(source.text)}"
        return text

    def without_half(self) -> str:
        """Return the compiled text for a device without half, whose compiler may refuse the pragma that enables
        it."""
        return _HALF.sub("", self.compiled)


def _closed(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _quoted(name: str) -> str:
    name = "".join(c if c.isprintable() else "?" for c in name)
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _comment(text: str) -> str:
    """Return a text that cannot end its comment: without control characters and line continuations."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain.replace("\\", "/").replace("??/", "?? /")
