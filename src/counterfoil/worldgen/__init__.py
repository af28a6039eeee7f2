"""A restaurant group that never was: source records for demos, tests and measurements.

Everything follows from a `WorldPlan`; the same plan gives the same bytes.
Nobody in it exists: phone numbers start with 000, mail goes to example.com
and example.org, names say that they are invented.
"""
