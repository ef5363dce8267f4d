"""One file a backend; each imports only its own library."""
