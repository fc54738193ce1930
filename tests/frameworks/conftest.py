"""Programs of the frameworks that need an environment of their own; run by scripts/test-frameworks."""
