"""The mapping that was accepted: its entries, as TOML, and the checks that later files must pass."""
