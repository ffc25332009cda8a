"""Tests of the rights."""
