"""The tools of two vendors, as witnesses of the files that are written for them: see __main__.py."""
