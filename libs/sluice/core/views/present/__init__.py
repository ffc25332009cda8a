"""What people see, as `status` of manifests and in Kubernetes' words."""
