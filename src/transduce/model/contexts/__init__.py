"""Attention contexts: which tokens meet in attention, and by which layout and kernel.

A context is made from the data of a batch and handed to every layer. In reading order:

selection   the context for a batch
grouped     any device: sentences of equal length form dense tensors
packed      GPU with our kernels: each query sees a range of keys
recorded    a grouped context that also keeps the attention weights

The contexts of decoding, one pair per layer and step, are in `model/cache`.
"""
