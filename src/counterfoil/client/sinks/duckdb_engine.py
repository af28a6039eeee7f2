"""Imports DuckDB without the parts of its package that a copy does not need.

Importing the package `duckdb` takes longer than everything else that a pull without changes does, because it also
imports classes for relations, expressions and data frames. A copy needs only connections and errors, which are in the
package's compiled module.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb as engine
else:
    try:
        import _duckdb as engine
    except ImportError:  # Releases before 1.4 have the compiled module inside the package.
        import duckdb as engine

__all__ = ["engine"]
