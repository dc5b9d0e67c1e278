"""Models and configurations of other toolkits.

`export` writes a run for another library, `importing` makes a run from another library's model,
`converting` a recipe from another toolkit's configuration (without torch). `marian` maps our
weights to Marian's names and back; `dictionary` checks dictionary files of other toolkits.
"""
