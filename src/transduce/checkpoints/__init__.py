"""Weights and optimizer state in a run folder.

checkpoint   save, load and average weights and checkpoints
selection    which weights translate when a run has ended
"""
