"""gym shares the card of gymnasium: its environments are of the same kind."""

from cutaway.record.frameworks.cards.gymnasium import CARD as CARD
