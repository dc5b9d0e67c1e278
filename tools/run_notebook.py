"""Run the notebook and save it with its outputs: python tools/run_notebook.py.

Progress on stderr and execution counts are not saved.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "first-translator.ipynb"


def run(path: Path) -> None:
    """Run a notebook, and write it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=1800).execute()
    for cell in notebook.cells:
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell["execution_count"] = None
            cell["outputs"] = [
                output for output in cell["outputs"] if output.get("name") != "stderr"
            ]
            for output in cell["outputs"]:
                if output["output_type"] == "execute_result":
                    output["execution_count"] = None
    notebook["metadata"]["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    run(Path(sys.argv[1]) if len(sys.argv) > 1 else NOTEBOOK)
