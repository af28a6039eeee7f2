"""A strict HTML parser: markup that a browser would silently repair is an error."""

from html.parser import HTMLParser

VOID_ELEMENTS = {"br", "col", "hr", "img", "input", "link", "meta", "wbr"}
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
LOADING = {"img": "src", "script": "src", "link": "href", "iframe": "src", "object": "data", "source": "src"}
# Elements that are not allowed in a paragraph. A browser ends the paragraph at their start tag.
BLOCKS = {"p", "div", "table", "ul", "ol", "pre", "section", "details", "form", "article", *HEADINGS}
PARENTS = {"li": {"ul", "ol"}, "tr": {"thead", "tbody"}, "td": {"tr"}, "th": {"tr"}}
PARENTS["option"] = {"select", "optgroup", "datalist"}


class StrictPage(HTMLParser):
    """The elements of a page. `problems` lists the errors found in its markup, links and headings."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.headings: list[int] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text_of: dict[str, str] = {}
        self._open: list[tuple[str, str | None]] = []
        self.feed(page.decode())
        self.close()
        self.problems += [f"<{name}> is not closed" for name, _ in self._open]
        self._check_ids_and_links()

    def named(self, name: str) -> list[dict[str, str | None]]:
        """Return the attributes of every element with this name."""
        return [attributes for found, attributes in self.elements if found == name]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        self._check_attributes(tag, attrs)
        self._check_place(tag)
        if tag in LOADING and (address := attributes.get(LOADING[tag])):
            self.loads.append(address)
        if tag == "a" and (address := attributes.get("href")):
            self.links.append(address)
        if tag in HEADINGS:
            self.headings.append(int(tag[1]))
        if identifier := attributes.get("id"):
            self.ids.append(identifier)
            self.text_of[identifier] = ""
        if tag not in VOID_ELEMENTS:
            self._open.append((tag, attributes.get("id")))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            self.problems.append(f"</{tag}> does not close {self._open[-1:]}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        for _, identifier in self._open:
            if identifier:
                self.text_of[identifier] += data

    def _check_attributes(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attributes]
        if len(set(names)) < len(names):
            self.problems.append(f"<{tag}> has an attribute twice")
        self.problems += [f"<{tag}> has {name}" for name in names if name == "style" or name.startswith("on")]

    def _check_place(self, tag: str) -> None:
        parent = self._open[-1][0] if self._open else None
        if tag in PARENTS and parent not in PARENTS[tag]:
            self.problems.append(f"<{tag}> is inside <{parent}>")
        if tag in BLOCKS and any(name == "p" for name, _ in self._open):
            self.problems.append(f"<{tag}> is inside <p>")
        if tag == "a" and any(name == "a" for name, _ in self._open):
            self.problems.append("<a> is inside <a>")

    def _check_ids_and_links(self) -> None:
        self.problems += [f"the id {one} occurs twice" for one in {one for one in self.ids if self.ids.count(one) > 1}]
        known = set(self.ids)
        self.problems += [f"{link} leads nowhere" for link in self.links if link[0] == "#" and link[1:] not in known]
        if self.headings[:1] != [1] or self.headings.count(1) != 1:
            self.problems.append("the page does not begin with its only h1")
        for before, after in zip(self.headings, self.headings[1:], strict=False):
            if after > before + 1:
                self.problems.append(f"h{after} follows h{before}")
