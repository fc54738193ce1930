"""Keras shares the card of TensorFlow."""

from cutaway.record.frameworks.cards.tensorflow import CARD as CARD
