"""The commands of the server. Each module is imported only when its command is needed."""

from typing import Final

from counterfoil.program.registry import RegisteredCommand

COMMANDS: Final = (
    RegisteredCommand("demo", "Start", "Try Counterfoil with an invented restaurant group.", "counterfoil.cli.demo"),
    RegisteredCommand(
        "init",
        "Start",
        "Create an empty store, or replace a lost file by an empty one.",
        "counterfoil.cli.store",
        "init",
    ),
    RegisteredCommand("serve", "Start", "Serve the API.", "counterfoil.cli.serve"),
    RegisteredCommand("console", "Start", "Run the console, a web site for operators.", "counterfoil.cli.console"),
    RegisteredCommand(
        "load", "Load", "Load source records from files, folders or standard input.", "counterfoil.cli.load"
    ),
    RegisteredCommand(
        "loads", "Load", "List loads and rejected lines, close what waits, or undo a load.", "counterfoil.cli.loads"
    ),
    RegisteredCommand(
        "import", "Load", "Convert POS exports, or a POS database, into source records.", "counterfoil.cli.import_"
    ),
    RegisteredCommand(
        "shops",
        "Load",
        "List the loaded shops and how busy they are today, or set facts about them.",
        "counterfoil.cli.shops",
    ),
    RegisteredCommand("members", "Load", "Forget a member who asks for it.", "counterfoil.cli.members"),
    RegisteredCommand("keys", "Keys", "Issue, list, update, rotate and revoke API keys.", "counterfoil.cli.keys"),
    RegisteredCommand("usage", "Keys", "Show requests per key and day.", "counterfoil.cli.lists", "usage"),
    RegisteredCommand("status", "Watch", "Show a one-screen health summary.", "counterfoil.cli.status"),
    RegisteredCommand(
        "doctor",
        "Watch",
        "Check everything that the service needs (status --deep).",
        "counterfoil.cli.status",
        "doctor",
    ),
    RegisteredCommand(
        "requests", "Watch", "Find recorded requests, or follow new ones.", "counterfoil.cli.lists", "requests"
    ),
    RegisteredCommand(
        "audit", "Watch", "Show who changed keys or the store, and when.", "counterfoil.cli.lists", "audit"
    ),
    RegisteredCommand("settings", "Store", "Print the effective settings.", "counterfoil.cli.settings"),
    RegisteredCommand(
        "backup", "Store", "Back up an embedded store in use, and verify the backup.", "counterfoil.cli.store", "backup"
    ),
    RegisteredCommand("restore", "Store", "Restore a backup.", "counterfoil.cli.store", "restore"),
    RegisteredCommand(
        "prune",
        "Store",
        "Delete expired request records, totals, cursors and removals.",
        "counterfoil.cli.store",
        "prune",
    ),
    RegisteredCommand(
        "migrate", "Store", "Create or upgrade the schema of a PostgreSQL store.", "counterfoil.cli.store", "migrate"
    ),
    RegisteredCommand(
        "copy", "Store", "Copy a live store from a folder to PostgreSQL and compare both.", "counterfoil.cli.copy"
    ),
    RegisteredCommand("generate", "Develop", "Write realistic source records for testing.", "counterfoil.cli.generate"),
    RegisteredCommand(
        "schema",
        "Develop",
        "Print the JSON Schema of a kind of source record, or of the form of an import.",
        "counterfoil.cli.schema",
    ),
    RegisteredCommand(
        "reference",
        "Develop",
        "Write the API reference: HTML, Markdown, llms.txt or Postman.",
        "counterfoil.cli.reference",
    ),
)
