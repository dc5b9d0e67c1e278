"""The models that the paper compares itself with, using the same trainer, search and scores.

In reading order:

- `recurrent`: LSTM encoder and decoder with attention; `lstm` contains its layers.
- `convs2s`: gated convolutions with attention; `convolution` contains its convolutions.
- `bytenet`: dilated convolutions without attention.
- `neural_gpu`: a convolutional GRU that rewrites an image of the sentence; `cgru` contains it.
- `states`: the state of their decoders between steps.
- `memory_network`: attention hops over the sentences of a story. It answers questions, so
  `experiments/memory_training` trains it, and it is not in the tables named below.

To add one, write a module here and add a row to model/architecture.py and config.ARCHITECTURES.
"""
