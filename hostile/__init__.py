"""The attack campaign: hostile and careless callers, broken disks and dying servers.

`python -m hostile` runs it with any number of requests; docs/evidence/security.md explains
what each part proves.
"""
