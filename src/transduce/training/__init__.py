"""Training: from two text files to a translator.

train         train(): prepare the corpus, begin or resume a run
settings      settings from the preset, the options, the data and the machine
defaults      what is chosen if no preset is named, by the size of the data
start         starting from a trained run
trainer       one run, step by step
gradient      the gradient of an update, computed as fast as the machine allows
optimizer     Adam, Muon and the learning rate
muon          Muon's updates of matrices
averaging     the moving average of the weights
validation    loss, perplexity and BLEU on the validation set
log           the training log
saving        checkpoints, written in the background on a GPU
pacing        settings that depend on the speed of the machine
distributed/  several processes
"""
