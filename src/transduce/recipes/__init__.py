"""Recipes: one file says which data, which model, how long, and how the result is measured."""
