"""Operations with a Triton kernel of ours or a special CPU kernel, and their torch equivalents.

Only this package imports the Triton kernels. Each model has its own `Transducer.kernels`, which
says whether it uses them. In reading order:

- `kernels`: whether a model uses our Triton kernels.
- `linear`: linear maps, with oneDNN on a CPU.
- `dropout`: dropout with fast random bits on a CPU.
- `fused`: residual with norm, norm with ReLU, linear map with ReLU, gated activation.
- `queries_keys`: norm and rotation of queries and keys.
- `packed_attention`: attention over packed tokens.
- `decoding_attention`: attention in decoding steps.
- `softmax`: the smoothed softmax of the loss.
- `graphs`: CUDA graphs.
- `triton`: the kernels themselves.
"""
