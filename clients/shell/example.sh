#!/bin/sh
# A worker with curl: `sh example.sh [URL]`. Each ack goes with the next receive. TURNABOUT_TOKEN.
set -eu
queue="${1:-http://127.0.0.1:8080}/v1/queues/jobs"
post() { # with `--retry`, what was refused for now is repeated, after what Retry-After says
  curl -sS --fail-with-body --retry 5 --max-time 90 -H "Authorization: Bearer ${TURNABOUT_TOKEN:-}" "$@"
}
post "$queue/messages" -H 'Idempotency-Key: jobs-1' \
  -d '{"messages": [{"payload": {"text": "one"}}, {"payload": {"text": "two"}}]}'
acks='' # a worker that goes on for ever waits longer: "wait_seconds": 20
while got=$(post "$queue/receive" -d "{\"acks\": [$acks], \"wait_seconds\": 1}"); do
  acks=$(printf %s "$got" | sed -n 's/.*"receipt":\("[0-9.]*"\).*/\1/p')
  [ -n "$acks" ] || break
  printf '\n%s' "$got" | sed 's/.*"payload":{"text":"\([^"]*\)"}.*/did \1/'
done
echo
