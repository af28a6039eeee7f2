"""The option `--json`. It is in a module of its own because importing the settings, as `options` does, takes long."""

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
