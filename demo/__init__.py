"""The demo: a year of flights as messages, sixteen carriers as tenants, a worker killed on the way.

`python3 dev.py demo` runs it. `run.py` has the steps, `flights.py` the data,
`work.py` what a worker process does, `crew.py` the processes, `shift.py` how they are led,
`ledger.py` what they wrote down, `verdict.py` what follows from that, `pipeline.py` the half that
runs on Spark, `show.py` how it looks, `picture.py`
and `recording.py` what the README shows of it.
"""
