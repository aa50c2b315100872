"""Exercises that understand wrong answers: the engine, and one module a chapter.

from attnlab.exercises import ch1_weights as ch1
ch1.stable_softmax.check()
"""
