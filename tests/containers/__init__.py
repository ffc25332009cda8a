"""A whole cell in containers, by testcontainers: `make test-containers`."""
