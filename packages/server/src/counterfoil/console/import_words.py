"""What the importer says about files, in words for somebody who sits in the console instead of at a command line.

The importer advises options of commands and entries of mapping files, which the console does not have. The keys are its
templates, and the values have the same names in braces.
"""

from typing import Final

from counterfoil.model.text import translatable

CONSOLE_WORDS: Final = {
    "{sheet} has {example}, but dates.order is {order}. Use --date-order {other}.": translatable(
        "{sheet} has {example}, but the answers that are kept for such files say that dates are in the order {order}. "
        "Answer the questions again, and choose the order {other}."
    ),
    "some dates can only be in the order {other}, but dates.order is {order}. Use --date-order {other}.": translatable(
        "Some dates can only be in the order {other}, but the answers that are kept for such files say {order}. Answer "
        "the questions again, and choose the order {other}."
    ),
    "{sheet} has days from {days} if they are read as {order}, as the mapping says, but {other_days} if they are read "
    "as {other_order}, which is more probable. Say which it is with --date-order {order} or {other_order}, or remove "
    "checks.days from the mapping.": translatable(
        "{sheet} has days from {days} if they are read as {order}, as in earlier files, but {other_days} if they are "
        "read as {other_order}, which is more probable. Answer the questions again, and say which it is."
    ),
    "some dates can only be day/month and others only month/day. Set dates.order in the mapping, or use "
    "--date-order.": (
        translatable(
            "Some dates can only be day/month and others only month/day. Export the file again with dates in one order."
        )
    ),
    "{name} has the amount {example}, which may have three decimals or be in thousands. Write a mapping with a section "
    '[numbers], in which decimal is "." if they are decimals, otherwise ",", and use it with --mapping.': translatable(
        "{name} has the amount {example}, which may have three decimals or be in thousands. Export more days at once, "
        "so that other amounts show it, or save the amounts with two decimals."
    ),
    "{sheet} has smaller numbers in the column {larger} than in {smaller} on {otherwise} of its first {rows} rows, "
    "unlike the sample of the mapping. If these headings are over the right columns, remove the pair from "
    "checks.larger in the mapping.": translatable(
        "{sheet} has smaller numbers in the column {larger} than in {smaller} on {otherwise} of its first {rows} rows, "
        "unlike the first file of this kind. Check that these headings are over the right columns. If they are, answer "
        "the questions again."
    ),
    "{sheet} has the columns {new}, which the export did not have when the mapping {mapping} was made. They may change "
    "what a bill costs. Map them, or add them to file.columns to ignore them.": translatable(
        "{sheet} has the columns {new}, which earlier files did not have. They may change what a bill costs. Answer "
        "the questions again, so that they are looked at."
    ),
    "{sheet} has the columns {new}, which the export did not have when the mapping {mapping} was made. They may be "
    "points or credit. Map them, or add them to file.columns to ignore them.": translatable(
        "{sheet} has the columns {new}, which earlier files did not have. They may be points or credit. Answer the "
        "questions again, so that they are looked at."
    ),
    "no file has the column {name}, which the mapping {mapping} names.": translatable(
        "No file has the column {name}, which earlier files had. Export the same columns as before, or answer the "
        "questions again."
    ),
    "{sheet} has no column {missing}, which the mapping {mapping} names. Its columns are: {columns}.": translatable(
        "{sheet} has no column {missing}, which earlier files had. Its columns are: {columns}. Export the same columns "
        "as before, or answer the questions again."
    ),
    "The header row is not text in the encoding of the mapping, or UTF-8 by default. Set file.encoding, or save the "
    "file in UTF-8.": translatable("The header row cannot be read. Save the file as CSV (UTF-8)."),
    "{file} is in UTF-8, but file.encoding of the mapping is {encoding}.": translatable(
        "{file} is in UTF-8, but earlier files were in {encoding}. Answer the questions again."
    ),
    "the mapping does not use these columns of {sheet}: {doubtful}. If one of them is paid in addition, or says that a "
    "bill does not count, the totals are wrong.": translatable(
        "These columns of {sheet} are not used: {doubtful}. If one of them is paid in addition, or says that a bill "
        "does not count, the totals are wrong."
    ),
    "{mapping} has no [checks], so little notices that a later file is written differently. `counterfoil import FILE "
    "-o NEW.toml` asks about a sample and writes checks for it: copy [checks] and file.columns into the mapping.": (
        translatable(
            "{mapping} was written by hand and has no checks, so little notices that a later file is written "
            "differently. Compare the totals with your day reports."
        )
    ),
    "{sheet} has hidden sheets with the same columns, which are not read: {hidden}. To read one, set file.sheet in a "
    "mapping, or show it in the workbook.": translatable(
        "{sheet} has hidden sheets with the same columns, which are not read: {hidden}. To read one, show it in the "
        "workbook, and bring the file in again."
    ),
    "So a load is stopped. These may be the same sales with other IDs, for example because bill.id of the mapping was "
    "changed. Use the earlier mapping.": translatable(
        "These may be the same sales with other numbers of bills. If they are, discard this file, because they would "
        "count twice."
    ),
    "If the POS begins again with the same numbers every day, in every shop or at every till, join the day, the shop "
    "or the till to bill.id in the mapping.": translatable(
        "If the till begins again with the same numbers every day, in every shop or at every till, do not accept this: "
        "discard the file, and ask whoever set up its columns to join the day, the shop or the till to the number of "
        "the bill."
    ),
    "Compare the time zone of the mapping and of the shop with that of earlier loads.": translatable(
        "Compare the time zone of the shop, on its page, with that of the till."
    ),
}
