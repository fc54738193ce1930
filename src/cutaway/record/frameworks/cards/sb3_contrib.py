"""sb3-contrib shares the card of Stable-Baselines3. It is imported before that, and imports ARS at once."""

from cutaway.record.frameworks.cards.stable_baselines3 import CARD as CARD
