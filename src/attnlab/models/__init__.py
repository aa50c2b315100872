"""Models around attention: a real one, run by the course's own layer, and those in which attention began.

`minilm` is all-MiniLM-L6-v2, a sentence encoder of 72 heads, with `attnlab.heads.MultiHeadAttention` in each layer;
`snippets` are the opinions on films that it is asked about.  Their weights and texts lie in the packages of
`requirements-models.txt`.  They are found by path and held to their SHA-256: no package that carries them is imported.
Where they are not installed, `minilm.missing()` and `snippets.missing()` say what to do.

`removal` is what that model loses with its heads: a record, and the functions that measure a part of it again.

`spelling` has the encoder-decoders of the history, small enough to train with `spelling_training`; `spelling_measures`
says how well they do, and where their weights point.

Nothing is imported here: the models need torch.
"""
