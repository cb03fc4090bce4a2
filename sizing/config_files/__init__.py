"""Config files of training frameworks, read as the scenario that they describe.

file -> ConfigSource (settings by name)     source.py, script.py for launch scripts
-> Importer that knows its names       importers/, one module for each kind of file
-> SettingReader, ScenarioDraft        reader.py: what became a field, what did not, what contradicts
-> ImportReport                        imported.py: the scenario, and a table of every setting
"""

from sizing.config_files.imported import ImportReport, import_config_files, is_config_of_training
from sizing.config_files.request import ImportRequest
from sizing.config_files.source import ConfigText

__all__ = ["ConfigText", "ImportReport", "ImportRequest", "import_config_files", "is_config_of_training"]
