"""The models that the paper compares itself with, using the same trainer, search and scores.

In reading order:

- `recurrent`: LSTM encoder and decoder with attention; `lstm` contains its layers.
- `convs2s`: gated convolutions with attention; `convolution` contains its convolutions.
- `bytenet`: dilated convolutions without attention.
- `neural_gpu`: a convolutional GRU that rewrites an image of the sentence; `cgru` contains it.
- `states`: the state of their decoders between steps.

To add one, write a module here and add a row to model/architecture.py and config.ARCHITECTURES.
"""
