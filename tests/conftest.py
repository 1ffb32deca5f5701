"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, database=None)
settings.register_profile("fresh", database=None, print_blob=True)
settings.load_profile("fixed")  # --hypothesis-profile=fresh draws new examples; see `make test-fresh`
