"""What several rooms need: heavy packages, each imported in exactly one file of this folder, XML, whole files."""
