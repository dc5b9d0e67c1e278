"""Weights and optimizer state in a run folder: save, load, average, select."""
