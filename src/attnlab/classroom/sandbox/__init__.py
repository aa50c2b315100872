"""The sandbox: `answering`, `calls`, `cells`, `isolation`, `worker` run inside of it, `judging` and `sandbox` outside.

`border` is on both sides.
"""
