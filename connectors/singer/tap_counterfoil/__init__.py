"""A Singer tap for the Counterfoil API."""
