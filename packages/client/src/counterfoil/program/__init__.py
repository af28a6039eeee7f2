"""The `counterfoil` program: its commands, which distributions register, and how it prints."""
