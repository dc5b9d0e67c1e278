"""Export a run for another library: each module has a function `export(run, folder)`.

`support` says which models each library can represent; `shapes` lists the arrays of a model;
`ctranslate2` and `huggingface` write the folders; `ctranslate2_cache` keeps the CTranslate2 exports
that the engine makes for itself.
"""
