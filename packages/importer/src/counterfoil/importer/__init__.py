"""The importer that proves and asks: it reads an unknown export, and returns a form with at most five questions.

    form(files, answers, shops=..., today=..., ...) -> Form     counterfoil.importer.proposal
    mapping(form) -> str                                        counterfoil.importer.proposal

The signature is

    form(files: FormFiles, answers: Mapping[str, str], shops: Sequence[KnownShop] = (), *, today: date,
         currency: str = "THB", timezone: str | None = None) -> Form

`form` is pure: the same files and answers give the same form. A program calls it, asks `form.open`, adds the answers by
the ID of their question, and calls it again until nothing is open. Then `form.totals` is what would be loaded, and
`mapping(form)` is the text of the mapping with which the files are converted.
"""
