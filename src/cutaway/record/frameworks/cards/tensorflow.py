"""TensorFlow and Keras: `frameworks/tensorflow.py` says what is found in their loops."""

from __future__ import annotations

from cutaway.record.frameworks import tensorflow
from cutaway.record.frameworks.card import Card

CARD = Card("TensorFlow, Keras", rules=tensorflow.RULES, headline=3)
