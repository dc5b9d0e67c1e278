"""Models and settings of other toolkits: export, import, conversion of their commands."""
