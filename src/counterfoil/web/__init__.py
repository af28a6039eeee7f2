"""Building blocks for HTML pages, such as the reference page.

- `html`: builds markup from elements. Text is always escaped. Inline styles, event handlers and `javascript:`
  URLs raise an error, because a strict Content-Security-Policy blocks them.
- `prose`: converts the subset of Markdown that descriptions use to markup.
- `page`: the layout of a page (skip link, header, navigation, main content, footer) and its Content-Security-Policy.
- `style`: the style sheet shared by all pages. Colours are custom properties with a light and a dark value.

A page works without scripts and loads nothing from other hosts: it uses the system's fonts, and its icon is embedded.
The top of `style.css` lists the classes that pages can use.
"""
