"""Commands about jobs: submit, job, wait, logs."""
