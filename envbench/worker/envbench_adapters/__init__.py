"""A file or folder per measured library, which imports only its own, and the parts they share."""
