"""Templates of HTML pages: Jinja2 with escaping, in which every name that is not defined is an error.

Pages have a strict Content-Security-Policy, so templates contain no inline style, event handler or script. A test
renders every page with hostile values and checks this.
"""

import re
from collections.abc import Callable

from jinja2 import Environment, PackageLoader, StrictUndefined

from counterfoil.web.prose import inline


class _OneLineLoader(PackageLoader):
    """Loads templates without their line breaks and indentation, for a page that must be small."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool] | None]:
        source, name, is_current = super().get_source(environment, template)
        return re.sub(r"\n\s*", "", source), name, is_current


def environment(package: str, *, is_compact: bool = False) -> Environment:
    """Return an environment with the templates in a package's folder `templates`.

    If `is_compact`, line breaks and indentation are left out.
    """
    made = Environment(
        loader=_OneLineLoader(package) if is_compact else PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
        extensions=["jinja2.ext.i18n"],
    )
    made.filters["prose"] = inline
    return made


def compile_all(templates: Environment) -> None:
    """Compile all templates, so that a program with a broken one does not start."""
    for name in templates.list_templates():
        templates.get_template(name)
