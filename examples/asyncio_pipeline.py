"""Several tasks, one connection, asyncio: `python examples/asyncio_pipeline.py [URL]`."""

import asyncio
import sys

import turnabout.aio

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite://"


async def shorten(mq: turnabout.aio.Turnabout, seen: list[str]) -> None:
    """Take words until none came for a while; send what is left of them on."""
    async for message in mq.queue("words").consume(max_messages=2, wait_seconds=0.2):
        seen.append(message.channel)
        await mq.queue("initials").send(message.text()[0], channel=message.channel)


async def main() -> None:
    async with turnabout.aio.connect(URL) as mq:
        await mq.queue("words").create()
        await mq.queue("initials").create()
        sends = (
            mq.queue("words").send(word, channel=word[0])
            for word in ("apple", "avocado", "banana", "cherry", "cranberry")
        )
        await asyncio.gather(*sends)  # on SQLite these are committed together

        seen: list[str] = []
        async with asyncio.TaskGroup() as tasks:
            for _ in range(3):
                tasks.create_task(shorten(mq, seen))

        print(sorted(seen))
        print("".join([m.text() for m in await mq.queue("initials").receive(10)]))


asyncio.run(main())

# It prints:
#   ['a', 'a', 'b', 'c', 'c']
#   abcac
