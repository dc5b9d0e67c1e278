"""The paper's model, in reading order: attention, layers, embedding, transformer."""
