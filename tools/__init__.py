"""Commands for the development of anylayer: `python -m tools.pages`, `python -m tools.words`."""
