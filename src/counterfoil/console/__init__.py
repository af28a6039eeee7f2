"""The operator's console: pages that show how the service is used and whether anything is wrong, and forms for keys.

- `server` accepts connections and `app` handles a request: guards, session, route, page.
- `guards` refuses requests that another web site may have caused; `links` makes sign-in links; `sessions` remembers
  who is signed in.
- `stores` opens the store for reading, with time limits; `actions` and `reveal_actions` are the audited actions.
- `pages/` has one module per page. A page first reads its data (the view, also served as JSON) and then draws it.
- `texts` has every text in English and Thai; `layout`, `display`, `charts` and `forms` build HTML.

The console runs in its own process. The service does not depend on the console.
"""
