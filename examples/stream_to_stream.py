"""Queue to queue through Spark: `python examples/stream_to_stream.py [URL [CHECKPOINT]]`.

Kill it anywhere and start it again: `priced` has each order once. The database has recorded which
messages a batch covers, so one that is repeated reads the same; and which batches were published,
so it sends nothing twice. Orders are acknowledged once Spark's commit log has their batch. What
breaks that is a lost lease: a program that published and is down for longer than `leaseSeconds`
leaves its orders to others, who handle them again. If that matters, check the header `order`.
"""

import sys

import turnabout
from turnabout.pipeline import session

URL = sys.argv[1] if len(sys.argv) > 1 else "postgresql://app@localhost/app"
CHECKPOINT = sys.argv[2] if len(sys.argv) > 2 else "orders-checkpoint"
PRICES = (("apple", 3), ("pear", 4), ("quince", 9))

mq = turnabout.connect(URL)
mq.queue("orders").create()
if mq.queue("orders").stats().sent == 0:
    some = [{"order": n, "fruit": PRICES[n % 3][0], "pieces": n % 5 + 1} for n in range(1000)]
    mq.queue("orders").send_many([turnabout.message(o, channel=o["fruit"]) for o in some])

spark = session()
prices = spark.createDataFrame(PRICES, "fruit string, price int")
orders = (
    spark.readStream.format("turnabout")
    .options(url=URL, mode="lease", subscribe="orders", subscription="pricing")
    .options(maxOffsetsPerTrigger=250, leaseSeconds=600)
    .load()
    .selectExpr("from_json(string(value), 'order int, fruit string, pieces int') as o")
)
value = "to_json(struct(order, fruit, pieces * price as total)) as value"
priced = orders.selectExpr("o.*").join(prices, "fruit")
query = (
    priced.selectExpr(value, "fruit as channel", "map('order', string(order)) as headers")
    .writeStream.format("turnabout")
    .options(url=URL, queue="priced", checkpointLocation=CHECKPOINT)
    .trigger(availableNow=True)  # what there is now; without it the stream goes on
    .start()
)
shown, is_over = 0, False
while not is_over:
    is_over = query.awaitTermination(0.2)
    for batch in query.recentProgress[shown:]:
        shown += 1
        print(f"batch {batch['batchId']}: {batch['numInputRows']} orders", flush=True)
print(mq.queue("orders").stats().done, "done,", mq.queue("priced").stats().sent, "sent")
mq.close()

# It prints:
#   batch 0: 250 orders
#   batch 1: 250 orders
#   batch 2: 250 orders
#   batch 3: 250 orders
#   1000 done, 1000 sent
