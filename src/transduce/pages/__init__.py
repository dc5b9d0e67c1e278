"""CSS, JavaScript and HTML shared by the pages of serving, inspection and experiments.

Imports nothing of transduce. Other packages read the files below FOLDER.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
