"""The heavy packages that several rooms need, each imported in one file here."""
