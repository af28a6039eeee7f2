"""The checks of `doctor` and `status`, each with advice on how to fix a problem. The console shows them too."""
