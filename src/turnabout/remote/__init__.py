"""An HTTP server as a store: `turnabout.connect("http://…")`.

`address` reads the URL, `exchange` makes requests of verbs and outcomes of answers, `notifications`
knows when a wait is over. The store, of which `_sync` is generated from `_async`, only carries
requests there and answers back, by `transport`.
"""
