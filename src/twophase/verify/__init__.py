"""Workload, faults and checkers that prove exactly-once on real processes."""
