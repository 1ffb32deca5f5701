"""Corrections: operators that an engine computes wrongly are replaced by others that it computes correctly, or
refused.

Every graph that is given to an engine, or written to a file that an engine runs, passes through `corrected`. In
contrast to other rules (see optimize.rules), corrections cannot be left out.
"""

from anylayer.corrections.corrector import Corrected, corrected

__all__ = ["Corrected", "corrected"]
