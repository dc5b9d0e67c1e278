"""Attention contexts: which tokens meet in attention, and by which layout and kernel.

A context is made once per pass from the data of a batch and handed to every layer. In reading
order:

selection   the context for a batch
grouped     CPU: sentences of equal length form dense tensors
packed      GPU: each query sees a range of keys
recorded    a grouped context that also keeps the attention weights

The context of decoding is `model/cache`.
"""
