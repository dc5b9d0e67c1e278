"""Weights and optimizer state in a run folder.

checkpoint   save, load and average weights and checkpoints
selection    selecting the final weights of a run
"""
