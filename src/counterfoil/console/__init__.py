"""The operator's console: pages that show how the service is used and whether all is well, and forms for keys.

- `server` accepts connections and `app` handles a request: guards, session, route, page.
- `guards` refuses requests that another web site may have caused; `links` makes sign-in links; `sessions` remembers
  who is signed in.
- `stores` opens the store for reading, with time limits; `actions` and `reveal_actions` do what must be audited.
- `pages/` has one module per page. A page first reads a view, which is its `.json` twin, and then draws it.
- `texts` has every text in English and Thai; `layout`, `display`, `charts` and `forms` draw.

The console runs in a process of its own. The service does not depend on it.
"""
