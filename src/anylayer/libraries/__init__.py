"""Heavy packages that several rooms need. Each is imported in exactly one file of this folder."""
