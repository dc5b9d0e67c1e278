"""The paper's experiments: its tables, its figures and the claims in its text (`transduce paper`).

Each experiment returns a `Finding`: tables with the paper's numbers next to ours, pictures, and
notes on what was scaled down. In reading order:

- findings: `Finding`, its tables and pictures, saved as JSON and SVG
- paper_numbers: the numbers of the paper's Tables 2 to 4
- statistics: bootstrap intervals, rank correlation, power-law fits
- drawing: pictures of findings
- table1_layers, path_lengths, table1_measurement, table1: costs and paths of single layers
- experiment_folder: experiment.json and result.json
- rows: one training run: its texts, settings and result
- budget: the budget for a training run, and a schedule that fits it
- further_tests: more test sets, translated by the same models
- comparison: several training runs on one corpus, translated and scored the same way
- two_pairs, table2, table3: earlier models, in one pair of languages or two, and variations on the
  Transformer
- parser_experiment, table4: constituency parsing
- claims: code shared by scaling, positions, smoothing and training
- teacher_forcing: perplexity and accuracy of given translations
- scaling, positions, smoothing: claims in the paper's text
- training_rates, checkpoint_means, training_tables, training_pictures, training: learning rate,
  dropout, and checkpoints averaged
- memory_training, memory_finding, memory: a predecessor of the Transformer, by number of hops
- phenomena, figures: Figures 3 to 5
- all_experiments: everything within a time budget
- report: all findings on one HTML page
"""
