"""Config files of training frameworks, read as the scenario that they describe.

file -> ConfigSource (settings by name)     sizing/config_files: source.py, script.py for launch scripts, reader.py
-> Importer that knows its names       one module for each program, listed in registry.py
-> ImportReport                        imported.py: the scenario, and a table of every setting
"""

from sizing.config_files.source import ConfigText
from sizing.importers.imported import ImportReport, import_config_files, is_config_of_training
from sizing.importers.request import ImportRequest

__all__ = ["ConfigText", "ImportReport", "ImportRequest", "import_config_files", "is_config_of_training"]
