"""The sandbox: `answering`, `cells`, `isolation` and `worker` run inside of it, `judging` and `sandbox` outside.

`border` is on both sides.
"""
