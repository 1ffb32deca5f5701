"""Run a compiled network. The strategies that only some models need are files that are loaded when first used."""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile

if TYPE_CHECKING:
    from anylayer.runtime import auto, choice, open, remedy

__all__ = ["auto", "choice", "open", "remedy"]

sys.modules[__name__].__class__ = NamesByFile
