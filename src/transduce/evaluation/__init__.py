"""BLEU, chrF and TER, the paper's BLEU, confidence intervals, significance tests."""
