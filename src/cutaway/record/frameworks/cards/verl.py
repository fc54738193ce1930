"""verl shares the card of TRL."""

from cutaway.record.frameworks.cards.trl import CARD as CARD
