"""Files that hold named arrays."""
