"""Recipes: one TOML file says which data, which model, how long, and how to evaluate. No torch.

`recipe` reads and checks recipe files, `data` finds and downloads their texts. The recipes that
come with the package are the .toml files here.
"""
