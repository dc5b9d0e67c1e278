"""The models that the paper compares itself with, on the same trainer, search and scores.

In reading order:

- `recurrent`: LSTM encoder and decoder with attention; `lstm` has its layers.
- `convs2s`: gated convolutions with attention; `convolution` has its convolutions.
- `bytenet`: dilated convolutions without attention.
- `states`: the state of their decoders between steps.

A new one is a module here, a row in model/architecture.py and a row in config.ARCHITECTURES.
"""
