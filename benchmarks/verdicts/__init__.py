"""Programs with a planted cause: is it named, and does the advice gain what was estimated?"""
