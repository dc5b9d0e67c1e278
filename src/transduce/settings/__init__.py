"""The machinery under `config`: typed settings with descriptions, limits and aliases.

types     check a value against a type hint and name the type for people
base      the base class of the three configurations; values read from the command line
aliases   names of the settings in other toolkits
"""
