"""Models and configurations of other toolkits.

`export` writes a run for another library, `importing` makes a run of another library's model,
`converting` makes a recipe of another toolkit's configuration (no torch). `marian` maps our weights
to Marian's names and back; `dictionary` checks dictionary files of other toolkits.
"""
