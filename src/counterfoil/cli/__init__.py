"""The command `counterfoil`: one file a command group, each imported only when it is called."""
