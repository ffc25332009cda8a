"""What is looked at before a release: `make release-check`."""
