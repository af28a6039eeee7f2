"""The `counterfoil` command. Each subcommand has its own module, which is imported only when it is needed."""
