"""Building blocks for HTML pages: the reference page is made of them, and other pages can be.

- `html`: builds markup from elements. Text is always escaped, and what a strict Content-Security-Policy would refuse
  (inline styles, event handlers, `javascript:` addresses) cannot be built at all.
- `prose`: converts the little Markdown that descriptions use into markup.
- `page`: the layout of a page (skip link, header, navigation, main part, footer) and its Content-Security-Policy.
- `style`: the style sheet shared by all pages. Colours are custom properties with a light and a dark value.

A page works without a script and loads nothing from another host: fonts are the system's, and the icon is part of the
page. The classes that the style sheet knows are listed at the top of `style.css`.
"""
