"""Readers, one module a format. Each has `describe` and `read`; see `base.Reader`."""
