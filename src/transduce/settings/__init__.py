"""The machinery under `config`: typed settings with descriptions, limits and aliases.

types     check values against type hints, and describe types in messages
base      the base class of the three configurations; parsing values from the command line
aliases   names of the settings in other toolkits
"""
