"""A Model Context Protocol server that answers an assistant's questions from a pulled copy.

It never writes to the copy or calls the service, so it needs no key. Columns that can identify a person are not loaded.
"""
