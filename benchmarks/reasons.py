"""Why a row misses its target, as profiling found: row name -> reason, for the report's last table."""

REASONS: dict[str, str] = {}
