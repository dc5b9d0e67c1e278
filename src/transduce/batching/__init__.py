"""Batches of packed tokens, and the thread that prepares them while the device works.

In reading order:

packed      batches: packed tokens and their sentence boundaries; grouped batches
static      packed batches of one shape, for CUDA graphs
layouts     how the sentences of an update become batches
prefetch    the thread that prepares updates ahead of time
padded      from padded tensors to packed batches
"""
