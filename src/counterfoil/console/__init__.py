"""The operator's console: pages that show how the service is used and whether anything is wrong, and forms for keys.

- `app` runs the process and handles a request: security checks, session, route, page.
- `guards` refuses cross-site requests; `sign_in` makes and accepts links and knows which devices are signed in;
  `sessions` keeps language and form tokens in memory.
- `visit` has what pages work with, and reads the store; `actions` performs the audited actions.
- `pages/` has one module per page. A page first reads its data (the view, also served as JSON) and then renders it.
- `texts` has all strings in English and Thai; `layout`, `display`, `key_parts`, `charts` and `forms` build HTML, and
  `templates/` has the markup that never changes.

The console runs in its own process. The service does not depend on the console.
"""
