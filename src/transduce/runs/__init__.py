"""The run folder: everything that training writes, except the tensors. Imports no torch.

folder    layout and configuration
arrays    tensor files as numpy arrays
locks     locking a run folder for one process
state     the training state in a checkpoint
metrics   writing metrics.jsonl and samples.jsonl
tracking  sending metrics to a function, TensorBoard, Weights & Biases or MLflow
history   reading metrics.jsonl and samples.jsonl, whole or as they grow
"""
