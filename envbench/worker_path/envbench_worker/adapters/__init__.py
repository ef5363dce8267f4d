"""One file or folder per measured library; each imports only its own."""
