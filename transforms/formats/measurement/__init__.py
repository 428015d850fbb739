"""Files of data loggers and monitors."""
