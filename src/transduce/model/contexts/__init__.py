"""Attention contexts: which tokens attend to which, in which layout and with which kernel.

A context is created for a batch and passed to every layer. In reading order:

selection   the context for a batch
grouped     any device: sentences of equal length form dense tensors
packed      GPU with our kernels: each query attends to a range of keys
recorded    a grouped context that also keeps the attention weights

The contexts for decoding, one pair per layer and step, are in `model/cache`.
"""
