"""Configurations of other toolkits, for tests of `transduce convert`."""

FAIRSEQ = """\
#!/usr/bin/env bash
# German to English, small.
TEXT=prepared/bpe.de-en
export ADAM="--optimizer adam --adam-eps 1e-09"
fairseq-preprocess --source-lang de --target-lang en \\
    --trainpref $TEXT/train --validpref ${TEXT}/valid --destdir data-bin/de-en \\
    --nwordssrc 10000 --nwordstgt 8000 --workers 8

CUDA_VISIBLE_DEVICES=0,1 fairseq-train data-bin/de-en \\
    --arch transformer_iwslt_de_en --share-decoder-input-output-embed \\
    $ADAM --adam-betas '(0.9, 0.98)' --clip-norm 0.0 \\
    --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000 --warmup-init-lr 1e-07 \\
    --dropout 0.3 --weight-decay 0.0001 --encoder-normalize-before \\
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \\
    --max-tokens 4096 --update-freq 8 --max-update=50000 --fp16 --eval-bleu \\
    --word-noise 0.2 > train.log 2>&1
fairseq-generate data-bin/de-en --path checkpoints/last.pt --beam 5 --lenpen 1.2 --quiet; echo done
"""
HYDRA = """\
task: {_name: translation, data: data-bin/x, source_lang: de, target_lang: en}
model:
  _name: transformer
  share_all_embeddings: true
  encoder: {layers: 4, embed_dim: 256, attention_heads: 4, ffn_embed_dim: 512}
  decoder: {layers: 2, embed_dim: 256, attention_heads: 8}
optimizer: {_name: adam, adam_betas: "(0.9,0.98)"}
optimization: {lr: [0.0005], max_epoch: 30, update_freq: [4]}
lr_scheduler: {_name: inverse_sqrt, warmup_updates: 400}
criterion: {_name: cross_entropy}
dataset: {max_tokens: 4000}
distributed_training: {distributed_world_size: 2}
checkpoint: {keep_interval_updates: 20}
"""
OPENNMT = """\
save_data: run/example
src_vocab: run/vocab.shared
tgt_vocab: run/vocab.shared
src_vocab_size: 36000
tgt_vocab_size: 36000
share_vocab: true
src_seq_length: 96
tgt_seq_length: 100
transforms: [sentencepiece, filtertoolong]
data:
  europarl: {path_src: text/europarl.en, path_tgt: text/europarl.de, weight: 3}
  news: {path_src: text/news.en, path_tgt: text/news.de}
  valid: {path_src: text/valid.en, path_tgt: text/valid.de}
save_model: run/big
keep_checkpoint: 50
train_steps: 50000
world_size: 4
batch_type: tokens
batch_size: 5000
accum_count: [2]
optim: fusedadam
learning_rate: 2
warmup_steps: 4000
decay_method: noam
adam_beta2: 0.998
label_smoothing: 0.1
encoder_type: transformer
decoder_type: transformer
enc_layers: 6
dec_layers: 6
heads: 16
hidden_size: 1024
word_vec_size: 1024
transformer_ff: 4096
dropout: [0.1]
share_decoder_embeddings: true
share_embeddings: true
position_encoding: true
tokendrop_temperature: 1.0
"""
JOEYNMT = """\
name: small
data:
  train: text/train
  dev: text/dev
  test: text/test
  src: &no {lang: de, max_length: 62, level: bpe, voc_limit: 10000, voc_file: v.txt}
  trg: {lang: en, max_length: 62, level: bpe, voc_limit: 10000, voc_file: v.txt}
testing: {beam_size: 5, beam_alpha: 1.0, sacrebleu_cfg: {tokenize: 13a}}
training:
  random_seed: 42
  optimizer: adam
  adam_betas: [0.9, 0.98]
  scheduling: warmupinversesquareroot
  learning_rate: 2e-4
  learning_rate_warmup: 4000
  label_smoothing: 0.1
  batch_size: 4096
  batch_type: token
  batch_multiplier: 2
  epochs: 100
  updates: 100000
  validation_freq: 1000
model:
  tied_embeddings: true
  tied_softmax: true
  encoder: &stack
    {type: transformer, num_layers: 6, num_heads: 4, hidden_size: 256, ff_size: 1024, dropout: 0.3,
     layer_norm: pre, embeddings: {embedding_dim: 256, scale: true}}
  decoder:
    {type: transformer, num_layers: 5, num_heads: 4, hidden_size: 256, ff_size: 1024, dropout: 0.3,
     layer_norm: pre, embeddings: {embedding_dim: 256, scale: true}}
""".replace("&no ", "").replace("&stack\n    ", "\n    ")
