"""A Model Context Protocol server that answers an assistant's questions from a pulled copy.

The server never writes to the copy and never calls the service, so it needs no
key and uses no quota. Columns that can identify a person are not loaded.
"""
