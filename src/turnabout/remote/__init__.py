"""An HTTP server as a store: `turnabout.connect("http://…")`.

`address` reads the URL, `exchange` makes requests of verbs and outcomes of answers, `notifications`
knows when a wait is over. The two stores only carry requests there and answers back.
"""
