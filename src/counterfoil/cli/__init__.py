"""The `counterfoil` command. Each of its commands has a module, which is imported only when it is needed."""
