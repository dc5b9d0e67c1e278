"""Files, locks, devices, signals and progress displays. Imports no torch."""
