"""The `--json` option. It has its own module because `options` imports the settings, which is slow."""

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
