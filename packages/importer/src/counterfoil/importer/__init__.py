"""The importer that proves and asks: it reads an unknown export, and returns a form with at most five questions.

`form` of `counterfoil.importer.proposal` is pure: the same files and answers give the same form. A program calls it,
asks `form.open`, adds the answers by the ID of their question, and calls it again until nothing is open. Then
`form.totals` is what would be loaded, and `form.mapping` is the text of the mapping with which the files are converted.
"""
