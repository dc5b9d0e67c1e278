"""The only code that chooses a kernel: linear maps, dropout, residual and norm, attention."""
