"""Tests of the control of running streams."""
