#!/bin/sh
# A queue over HTTP, with nothing but curl: `sh examples/shell/queue.sh [URL]`.
# The server: `turnabout serve --url sqlite:///app.db`. Its token: TURNABOUT_TOKEN.
set -eu

queue="${1:-http://127.0.0.1:8080}/v1/queues/reports"

# Prints the answer. With an error, or a refusal as of a full queue (409), curl's exit code is 22.
call() {
  if [ -n "${TURNABOUT_TOKEN:-}" ]; then
    set -- -H "Authorization: Bearer $TURNABOUT_TOKEN" "$@"
  fi
  curl --silent --show-error --fail-with-body --max-time 60 "$@" || { code=$?; echo; return $code; }
  echo
}

# One message: the body is its payload, byte for byte. With the key, a repeat sends nothing twice.
echo 'month,sum' | call "$queue/send?channel=customer-1" \
  -H 'Content-Type: text/csv' -H 'Idempotency-Key: report-2027-01' --data-binary @-

# Wait up to 20 seconds for a message, and take its receipt out of the answer.
received=$(call "$queue/receive" -H 'Content-Type: application/json' \
  --data '{"max_messages": 1, "lease_seconds": 60, "wait_seconds": 20}')
receipt=$(printf '%s' "$received" | sed 's/.*"receipt":"\([0-9.]*\)".*/\1/')
echo "$receipt"

# Done.
call "$queue/ack" -H 'Content-Type: application/json' --data "{\"receipts\": [\"$receipt\"]}"

# An error has a code, and says whether to repeat.
call "$queue/ack" -H 'Content-Type: application/json' --data '{"receipts": "4711"}' ||
  echo "curl ended with $?"

# It prints:
#   {"outcome":"sent","ids":[1]}
#   1.1
#   {"items":[{"outcome":"acked"}]}
#   {"error":{"code":"usage",…,"retryable":false}}
#   curl ended with 22
