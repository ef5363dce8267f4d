"""A file or folder per measured library, which imports no other, and the parts they share."""
