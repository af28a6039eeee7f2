"""Generates source records of a fictitious restaurant group for demos, tests and benchmarks.

Everything is derived from a `WorldPlan`, so the same plan always produces the same bytes. All people are fictitious:
phone numbers start with 000, and email addresses are at example.com and example.org.
"""
