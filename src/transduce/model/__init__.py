"""The Transformer, its attention implementations and kernels, and the baseline models.

In reading order:

attention       Eq. 1, multi-head attention, the protocols of attention contexts (paper 3.2)
layers          feed-forward networks, residual connections, the layers of both stacks (3.1, 3.3)
embedding       embeddings (3.4, 3.5); `positions` computes the sinusoids without importing torch
base            the base class of models: embeddings and softmax (3.4), precision, `forward`
initialisation  the initial weights
transformer     the model: encode, decode, step
contexts/       which tokens attend to which: grouped (any device), packed (GPU), recorded
cache           the contexts for decoding: cached keys and values
attention_maps  the attention weights of a model, for inspection and alignment
architecture    the model that a configuration describes
loss            cross-entropy with label smoothing (5.4)
variants/       additive and restricted attention, rotary positions, pre-norm, RMSNorm, QK-norm
baselines/      the recurrent and convolutional models that the paper compares itself with
ops/            the kernels, and their equivalents in torch operations
"""
