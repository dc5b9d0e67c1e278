"""Models for other libraries: a module for each, with a function `export(run, folder)`."""
