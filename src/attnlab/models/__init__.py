"""Models around attention: two real ones, run by the course's own parts, and small ones that were trained for it.

`minilm` is all-MiniLM-L6-v2, a sentence encoder of 72 heads, with `attnlab.heads.MultiHeadAttention` in each layer;
`removal` is what it loses with its heads.  `smollm2` is SmolLM2-135M-Instruct, a language model, with the cache and the
grouped heads of `attnlab.efficient`; `smollm2_measures` is what a cache, a window and fewer heads do to it,
`smollm2_heads` and `smollm2_sinks` what its heads do and what their first key carries.  `snippets` are the opinions on
films and products, and the messages, that models are asked about.

Weights and texts of these lie in the packages of `requirements-models.txt`.  They are found by path and held to their
SHA-256: no package that carries them is imported.  Where they are not installed, `missing()` of each module says what
to do.

`spelling` has the encoder-decoders of the history, small enough to train with `spelling_training`; `spelling_measures`
says how well they do, and where their weights point; `spelling_alignment` and `spelling_forcing` judge that by a rule
and by interventions.

`classifier` reads reviews and messages, and its weights can be changed: `classifier_texts`, `classifier_training`,
`classifier_measures`.  `induction` continues a list that comes again, by looking it up or by position.

`recall` looks up pairs, with softmax and with linear attention; `pooling` turns a small language model with many key
heads into one with few; `defaults` are tasks on which something other than attention is at least as good, and
`defaults_training` trains on them.

Of what took long there is a record; functions beside it compute a part again.  Nothing is imported here: the models
need torch.
"""
