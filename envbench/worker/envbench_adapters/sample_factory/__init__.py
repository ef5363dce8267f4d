"""Sample Factory's sampler."""
