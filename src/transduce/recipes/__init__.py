"""Recipes: TOML files that specify the data, model, training time and evaluation. No torch.

`recipe` reads and checks recipe files; `data` finds and downloads their texts. The .toml files here
are the built-in recipes.
"""
