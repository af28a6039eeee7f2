"""Templates of HTML pages: Jinja2 with escaping, in which every name that is not defined is an error.

Pages have a strict Content-Security-Policy, so templates contain no inline style, event handler or script. A test
renders every page with hostile values and checks this.
"""

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from counterfoil.web.html import inline


def environment(package: str) -> Environment:
    """Return an environment with the templates in a package's folder `templates`."""
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
        extensions=["jinja2.ext.i18n"],
    )
    made.filters["prose"] = prose
    return made


def compile_all(templates: Environment) -> None:
    """Compile all templates, so that a program with a broken one does not start."""
    for name in templates.list_templates():
        templates.get_template(name)


def prose(text: str) -> Markup:
    """Return a line of text as markup: `code`, **bold** and [links](https://example.com), as in Markdown."""
    return Markup(inline(text))  # noqa: S704 - `inline` escapes the text
