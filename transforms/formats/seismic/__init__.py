"""Seismic traces."""
