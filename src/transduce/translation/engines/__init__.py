"""The engines that translate token ids; all of them implement `translation.types.Engine`.

- `selection`: chooses and loads the engine for a translator.
- `pytorch`: our models and search, on CPUs and GPUs.
- `ctranslate2`: exported models, on CPUs.
"""
