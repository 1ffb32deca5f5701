"""What several rooms need: heavy packages, each imported in exactly one file of this folder, XML, whole files."""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile

if TYPE_CHECKING:
    from anylayer.libraries import stdout

__all__ = ["stdout"]

sys.modules[__name__].__class__ = NamesByFile
