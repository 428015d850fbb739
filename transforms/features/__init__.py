"""Features: presets of one chain, prepare → transform → pool → scale."""
