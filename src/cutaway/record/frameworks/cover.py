"""What 0.1 called `hooks.py`: its docs named this module. New code uses `cutaway.instrument`; this goes with 0.3."""

from cutaway.record.frameworks.hooks import instrument as cover
from cutaway.record.frameworks.hooks import instrument_family as cover_family
from cutaway.record.frameworks.hooks import instrument_items as cover_items

__all__ = ["cover", "cover_family", "cover_items"]
