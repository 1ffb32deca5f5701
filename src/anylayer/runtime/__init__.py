"""Run a compiled network: the steps of its plan, host calls, and the choice of an engine."""
