"""The attack campaign: what a hostile or careless caller, a broken disk or a dying server can do to the service.

`python -m hostile` runs it with totals of your choice; docs/security.md says what each part proves.
"""
