"""From models to outputs: beam search and sampling, with continuous batching.

In reading order:

- `search`: one step of beam search or sampling for many sentences; scoring of given outputs.
- `lexical`: beam search whose outputs contain required phrases.
- `scheduler`: keeps the batch full: finished sentences leave, waiting ones enter.
- `workspaces`: memory for searches, and decode steps recorded as CUDA graphs.
"""
