"""Running a compiled network: the plan's steps, host calls, and the choice of an engine."""
