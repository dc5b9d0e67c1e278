"""Models for other libraries: a module for each, with one function `export(run, folder)`."""
