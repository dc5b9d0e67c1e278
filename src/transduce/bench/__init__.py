"""Training and translation speed against peers, measured alternately on the same machine.

In reading order:

- `training`: `bench train`; `results`: its table and JSON
- `translation`: `bench translate`; `translators`: its engines and peers
- `workers`: each side in its own process
- `peer`, `huggingface`, `pytorch`: models of other libraries as peers in training
- `random_text`: a corpus of random words
- `flops`, `hardware`: FLOPs of a step, and facts about the machine
"""
