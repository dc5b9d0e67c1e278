"""Generators for the pages of the site that are not in docs/."""
