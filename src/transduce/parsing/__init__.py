"""Constituency parsing as sequence transduction (paper 6.3, Table 4): words in, trees out."""
