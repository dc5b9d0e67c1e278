"""Data sets by name: a catalogue, downloads that resume, and texts ready for training.

catalogue     the data sets known by name: `catalogue.toml`
libraries     data sets of sacreBLEU and mtdata
folders       the folder of a data set
archives      which archives are needed and present
downloading   downloads that resume
unpacking     streams from archives
formats       sentences from plain text, tables, SGML and XML
writing       cleaned pairs as text files
retrieval     all of it: `get`
pocket/       the built-in corpus
stories       generated stories with questions, for memory networks; not a text to translate
"""

from transduce.datasets.folders import refuse_foreign
from transduce.datasets.retrieval import DataFiles, get, resolve

__all__ = ["DataFiles", "get", "refuse_foreign", "resolve"]
