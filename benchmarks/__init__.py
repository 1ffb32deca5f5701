"""Measure anylayer side by side with engines and other tools: `python -m benchmarks` (see README.md)."""
