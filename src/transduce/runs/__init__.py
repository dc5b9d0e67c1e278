"""The run folder: its layout, configuration, metrics and training state. Imports no torch."""
