"""Questions and answers, and how messages end: `python examples/results.py [URL]`."""

import sys
import threading

import turnabout

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite://"


def answer(sums: turnabout.Queue) -> None:
    """Handle what comes until nothing came for a while. A worker would do this."""
    for message in sums.consume(wait_seconds=1):
        try:
            message.ack(result=sum(message.json()))
        except TypeError as error:
            message.fail(str(error), retry=False)


with turnabout.connect(URL) as mq:
    sums = mq.queue("sums")
    sums.create(history_seconds=3600, history_payload=True)
    helper = threading.Thread(target=answer, args=(sums,))
    helper.start()

    # Send, and wait for the end.
    match sums.send_and_wait([1, 2, 3], timeout_seconds=10):
        case turnabout.Ending(outcome="done", result=result):
            print("it is", result.json())
        case other:
            print("no answer:", other)

    # Send many, do something else, and wait for all of them.
    sent = sums.send_many(turnabout.message(numbers) for numbers in ([4, 5], ["x"], [6]))
    for ending in sums.wait(sent.ids, timeout_seconds=10):
        print(ending.outcome, ending.result and ending.result.json(), ending.error)
    helper.join()

    # It is kept for as long as the queue says.
    for entry in sums.history_entries(outcome="dead"):
        print("history:", entry.payload, entry.attempt, "attempt")
    print(sums.clear("all"))

# It prints:
#   it is 6
#   done 9 None
#   dead None unsupported operand type(s) for +: 'int' and 'str'
#   done 6 None
#   history: b'["x"]' 1 attempt
#   Cleared(messages=4)
