"""The attack campaign: attacks by hostile or careless callers, and broken disks and dying servers.

`python -m hostile` runs it with totals of your choice; docs/security.md says what each part proves.
"""
