"""The run folder: everything that training writes, except the tensors. Imports no torch.

folder    layout and configuration
arrays    tensor files as numpy arrays
locks     a run folder is used by one process
state     the training state in a checkpoint
metrics   metrics.jsonl and samples.jsonl, written
history   metrics.jsonl and samples.jsonl, read whole or as they grow
"""
