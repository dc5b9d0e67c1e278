"""Workflows that combine several steps.

In reading order: `following` (a recipe: get the data, train, evaluate), `evaluation` (translate and
score the test set), `distillation` (train a student on a teacher's translations).
"""
