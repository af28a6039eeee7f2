"""The commands of the server. Each module is imported only when its command is needed."""

from typing import Final

from counterfoil.program.registry import RegisteredCommand

COMMANDS: Final = (
    RegisteredCommand("demo", "Start", "counterfoil.cli.demo"),
    RegisteredCommand("init", "Start", "counterfoil.cli.store", "init"),
    RegisteredCommand("serve", "Start", "counterfoil.cli.serve"),
    RegisteredCommand("console", "Start", "counterfoil.cli.console"),
    RegisteredCommand("load", "Load", "counterfoil.cli.load"),
    RegisteredCommand("loads", "Load", "counterfoil.cli.loads"),
    RegisteredCommand("import", "Load", "counterfoil.cli.import_"),
    RegisteredCommand("shops", "Load", "counterfoil.cli.shops"),
    RegisteredCommand("members", "Load", "counterfoil.cli.members"),
    RegisteredCommand("keys", "Keys", "counterfoil.cli.keys"),
    RegisteredCommand("usage", "Keys", "counterfoil.cli.lists", "usage"),
    RegisteredCommand("status", "Watch", "counterfoil.cli.status"),
    RegisteredCommand("doctor", "Watch", "counterfoil.cli.status", "doctor"),
    RegisteredCommand("requests", "Watch", "counterfoil.cli.lists", "requests"),
    RegisteredCommand("audit", "Watch", "counterfoil.cli.lists", "audit"),
    RegisteredCommand("settings", "Store", "counterfoil.cli.settings"),
    RegisteredCommand("backup", "Store", "counterfoil.cli.store", "backup"),
    RegisteredCommand("restore", "Store", "counterfoil.cli.store", "restore"),
    RegisteredCommand("prune", "Store", "counterfoil.cli.store", "prune"),
    RegisteredCommand("migrate", "Store", "counterfoil.cli.store", "migrate"),
    RegisteredCommand("copy", "Store", "counterfoil.cli.copy"),
    RegisteredCommand("generate", "Develop", "counterfoil.cli.generate"),
    RegisteredCommand("schema", "Develop", "counterfoil.cli.documents", "schema"),
    RegisteredCommand("reference", "Develop", "counterfoil.cli.reference"),
    RegisteredCommand("completion", "Develop", "counterfoil.cli.documents", "completion"),
)
