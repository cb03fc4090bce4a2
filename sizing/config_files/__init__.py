"""Config files and launch scripts as settings by name; what each setting means, `sizing/importers` know.

`source` parses a document, `script` and `launchers` the command of a launch script, `interpolation` fills in
references; `reader` is what importers read settings with: what became a field, what did not, what contradicts.
"""
