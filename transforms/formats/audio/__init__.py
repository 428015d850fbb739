"""Audio containers and codecs."""
