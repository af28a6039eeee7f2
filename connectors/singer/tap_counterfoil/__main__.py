from tap_counterfoil.tap import TapCounterfoil

TapCounterfoil.cli()
