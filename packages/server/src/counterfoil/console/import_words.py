"""What the importer says about files, in words for somebody who sits in the console instead of at a command line.

The importer advises options of commands and entries of mapping files, which the console does not have. The keys are its
templates, and the values have the same names in braces.
"""

from typing import Final

from counterfoil.model.messages import Message
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
    # What is wrong with a row.
    "has amounts in {currency}, but {expected} is expected. If all shops use it, use --currency {code}, or a mapping "
    'with currency = "{code}" in [numbers]': translatable(
        "has amounts in {currency}, but the others are in {expected}. Export the bills in {currency} to a file of "
        "their own: when you bring it in, you are asked for the currency"
    ),
    "has {cell} in the column {column}, which had only {known} in the sample, so the bill may be no sale, or its "
    "amounts may mean something else. If it counts like the others, add the value to checks.known in the mapping; "
    "otherwise list it in a [[status]] or in [skip]": translatable(
        "has {cell} in the column {column}, which had only {known} in earlier files, so the bill may be no sale, or "
        "its amounts may mean something else. Answer the questions again, and say what it means"
    ),
    "has {cell} in the column {column}, whose numbers had other letters in the sample: {known}. So it may be no sale, "
    "such as a credit note. If it counts like the others, add {letters} to checks.letters in the mapping, otherwise "
    "{cell} to [[status]] or [skip]": translatable(
        "has {cell} in the column {column}, whose numbers had other letters in earlier files: {known}. So it may be no "
        "sale, such as a credit note. Answer the questions again, and say what it means"
    ),
    "has {cell} in the column {column}, which had only codes such as T4 in the sample, or other words, so that it may "
    "be no sale. If it is one, add {word} to checks.allowed in the mapping, otherwise {cell} to [[status]] or "
    "[skip]": translatable(
        "has {cell} in the column {column}, which had only codes such as T4 in earlier files, or other words, so that "
        "it may be no sale. Answer the questions again, and say what it means"
    ),
    "has {cell} in the column {column}, which may mean that it is a {meaning}. If it is a sale, add the value to "
    "checks.allowed in the mapping, otherwise to [[status]] or [skip]": translatable(
        "has {cell} in the column {column}, which may mean that it is a {meaning}. Answer the questions again, and say "
        "what it means"
    ),
    "has {left} for {columns}, but {right} for {other_columns}. They must be equal (checks.equal in the mapping). An "
    "amount may be wrong, or a heading over another column": translatable(
        "has {left} for {columns}, but {right} for {other_columns}, which were equal in earlier files. An amount may "
        "be wrong, or a heading over another column. Correct the file, or answer the questions again"
    ),
    "has the sums of the bills above it, so it may be a row of totals. If it is, leave such rows out with [skip]. If "
    "it is a bill, add its ID to checks.allowed in the mapping": translatable(
        "has the sums of the bills above it, so it may be a row of totals. If it is, nothing is missing. If it is a "
        "bill, answer the questions again"
    ),
    "the mapping does not say what a value of {column} means": translatable(
        "nobody has said what a value of {column} means. Answer the questions again"
    ),
    "is not a number in the format of the mapping": translatable("is not a number as such files write them"),
    "{cell} is not a number in the format of the mapping": translatable(
        "{cell} is not a number as such files write them"
    ),
    "has {word} in the column {column}, which the mapping does not list as a status. Add a line to the values of that "
    '[[status]]: {word} = "sale", "void", "refund" or "skip"': translatable(
        "has {word} in the column {column}, and nobody has said what that means. Answer the questions again, and say "
        "whether such bills were sold, void or refunds"
    ),
    "has a negative total (amounts.net), but positive {positive}. If it is a refund, map a column that says so with "
    "[[status]]; otherwise correct the export": translatable(
        "has a negative total, but positive {positive}. If it is a refund, answer the questions again, and say which "
        "column shows it; otherwise correct the file"
    ),
    "has no shop. Use --shop, or map bill.shopId": translatable(
        "has no shop. Enter it in the file, or bring in such bills as a file of their own: you are then asked for it"
    ),
    "Use --shop": translatable("Bring in the orders of each shop as a file of their own: you are then asked for it"),
    "Request the orders with include=branch, or use --shop": translatable(
        "Request the orders with include=branch, or bring in those of each shop as a file of their own: you are then "
        "asked for it"
    ),
    "has the same ID as line {line} of {file}, but other values ({what}). If numbers start again every day, in every "
    "branch or at every till, add that column to bill.id. If a bill is split over files, add --join. Otherwise import "
    "only the file with the complete and latest bill": translatable(
        "has the same number as line {line} of {file}, but other values ({what}). Bring in only the file with the "
        "complete and latest bill. If they are two bills, because numbers start again every day, in every branch or at "
        "every till, answer the questions again"
    ),
    "{cell} is after midnight. If that was on the calendar day after the day of business, set dates.nightUntil to "
    '"06:00", otherwise to "00:00"': translatable(
        "{cell} is after midnight, and nothing says whether that was on the day of business or on the next one. Answer "
        "the questions again"
    ),
    "is the same bill as line {line}. If a bill is split over rows, such as one for each payment or guest, sum them in "
    "amounts.net. If these are two bills, add a column to bill.id": translatable(
        "is the same bill as line {line}. If a bill is split over rows, such as one for each payment or guest, or if "
        "these are two bills, answer the questions again"
    ),
    "has no row of totals at its end, unlike the sample, so rows may be missing. If it is complete, use a mapping with "
    "totals = false in [checks]": translatable(
        "has no row of totals at its end, unlike earlier files, so rows may be missing. Export it again. If it is "
        "complete, answer the questions again"
    ),
    "occurs again after other bills, so there may be two bills with this number. If there are two, add a column that "
    "tells them apart to bill.id, such as the time. If it is one bill, remove file.together from the "
    "mapping": translatable(
        "occurs again after other bills, so there may be two bills with this number. Answer the questions again"
    ),
    "{cell} has {name}, which several time zones use. Name that of the shop, as with --timezone": translatable(
        "{cell} has {name}, which several time zones use. Export the times without it, or with an offset such as +07:00"
    ),
    "{cell} has no time of day. Map the time column too, or set dates.defaultTime": translatable(
        "{cell} has no time of day. If the file has it in another column, answer the questions again"
    ),
    "{cell} is not a date. If it is the number of a spreadsheet, set dates.serial": translatable(
        "{cell} is not a date. If it is the number of a spreadsheet, format the column as a date, and save the file "
        "again"
    ),
    "{cell} has a year that is decades away, unless dates.calendar is {calendar}": translatable(
        "{cell} has a year that is decades away. Correct the date, or export it with a year of four digits"
    ),
    # Why rows were rejected, as a load counts them.
    "has a status that the mapping does not list": translatable("has a status of which nobody has said what it means"),
    "is in another currency than --currency, or currency in [numbers] of the mapping, says": translatable(
        "is in another currency than the one that was said, or than baht"
    ),
    # Rows that are left out.
    "the mapping says that such rows are not members": translatable(
        "such rows are not members, as was answered before"
    ),
    "the mapping says that such bills are left out": translatable("such bills are left out, as was answered before"),
    # Why a file cannot be read.
    "{file} has the sheet {title} with the same columns as others, and its rows may be no sales. Set file.sheet in a "
    "mapping, or save the sheet that is meant as a file of its own.": translatable(
        "{file} has the sheet {title} with the same columns as others, and its rows may be no sales. Save the sheet "
        "that is meant as a file of its own, and bring that in."
    ),
    "{name} has {problem}: {chosen}. Set file.sheet in a mapping, or save the sheet that is meant as a file of its "
    "own.": translatable(
        "{name} has {problem}: {chosen}. Save the sheet that is meant as a file of its own, and bring that in."
    ),
    "{file} has no header row in the line where one is expected. Set file.headingLine.": translatable(
        "{file} has no header row in the line where earlier files had it. Export it again as before, or answer the "
        "questions again."
    ),
    "is JSON, not a table. Import it without a mapping.": translatable(
        "is JSON, not a table. Export it as CSV or xlsx, or answer the questions again."
    ),
    "{file} has no column {lacking}, so voided bills would count as sales. Export it too, or import a file that has it "
    "together with this one. If it has another heading here, add that to [headings] of a mapping. If you know that no "
    'bill was voided, use a mapping with lacks = ["{lacking}"] in [file].': translatable(
        "{file} has no column {lacking}, so voided bills would count as sales. Export it too, or bring in a file that "
        "has it together with this one. If it has another heading here, or if you know that no bill was voided, answer "
        "the questions again."
    ),
    "The mapping {mapping} reads it with the other files of its export: name all of them.": translatable(
        "Earlier, it was brought in together with other files of its export: choose all of them."
    ),
    "It nearly fits the mapping {mapping}, but has no column {column}.": translatable(
        "It is nearly like earlier files, but has no column {column}."
    ),
    "{name} has no section [recognise], so no file is recognised by it.": translatable(
        "{name}, a file of answers that was written by hand, has no section for headings, so no file is recognised by "
        "it. Whoever wrote it must correct it."
    ),
    "the base {base_id} gets the tiers {tiers}, in the order in which they occur. List them in [base] of a mapping, "
    "the lowest first, if their order matters.": translatable(
        "The base {base_id} gets the tiers {tiers}, in the order in which they occur."
    ),
    "Bills that lack lines, all payments, the tip or the tax of the stored bill: {count}. This looks like another "
    "export of the same bills, or one that begins within a bill. Import both files together.": translatable(
        "Bills that lack lines, all payments, the tip or the tax of the stored bill: {count}. This looks like another "
        "export of the same bills, or one that begins within a bill. Bring in both files together."
    ),
}


def in_words_of_console(message: Message) -> Message:
    """Return a message in the words of the console if it advises what only a command line has."""
    text = CONSOLE_WORDS.get(message.text, message.text)
    return Message(message.code, text)
