"""Published, trained networks of ordinary packages: see docs/gallery.md."""
