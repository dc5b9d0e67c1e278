"""The base of the configuration classes: described fields, type checks, aliases of names."""
