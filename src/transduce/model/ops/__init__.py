"""The only code that imports our Triton kernels and knows what computes when they are not used.

Each model has its own choice, `Transducer.kernels`. In reading order:

- `kernels`: whether a model uses our Triton kernels.
- `linear`: linear maps, by oneDNN on a CPU.
- `dropout`: dropout with fast random bits on a CPU.
- `fused`: residual with LayerNorm, LayerNorm with ReLU, linear map with ReLU.
- `packed_attention`: attention over packed tokens.
- `decoding_attention`: attention of decoding steps.
- `softmax`: the smoothed softmax of the loss.
- `graphs`: CUDA graphs.
- `triton`: the kernels themselves.
"""
